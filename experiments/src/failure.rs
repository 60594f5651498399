//! Why a command ended without its result, and with which exit status.

use std::io::ErrorKind;
use std::process::ExitCode;

use handoff_backend::driver::DriverError;
use handoff_sim::analytic::tune::TuneError;
use handoff_sim::engine::RunError;
use handoff_sim::scenario::ScenarioError;

use crate::figure::FigureError;
use crate::output::StoreError;

/// Why a command ended without its result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The scenario, or an override of it, is wrong.
    #[error("{0}")]
    Scenario(#[from] ScenarioError),
    /// An argument is wrong in a way that only shows beside the others.
    #[error("{0}")]
    Argument(String),
    /// A cell of a grid is wrong; nothing has run.
    #[error("cell {cell}: {error}")]
    Cell {
        /// The cell's coordinates.
        cell: String,
        /// What is wrong with it.
        error: ScenarioError,
    },
    /// A run stopped without a result.
    #[error("{cell}{error}")]
    Run {
        /// The cell's coordinates and a colon, or nothing.
        cell: String,
        /// Why.
        error: RunError,
    },
    /// The machine failed while models were loaded or warmed up.
    #[error("{0}")]
    Machine(String),
    /// A run on the machine stopped without a result.
    #[error("{cell}{error}")]
    Driver {
        /// The cell's coordinates and a colon, or nothing.
        cell: String,
        /// Why.
        error: DriverError,
    },
    /// Nothing was measured.
    #[error(
        "{cell}the wanted requests all finished at one instant, so there is no time to measure over; raise `workload.requests`"
    )]
    NoTime {
        /// The cell's coordinates and a colon, or nothing.
        cell: String,
    },
    /// Thresholds could not be tuned.
    #[error("{0}")]
    Tune(#[from] TuneError),
    /// A result folder could not be used.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// A figure could not be drawn.
    #[error("{0}")]
    Figure(#[from] FigureError),
    /// Standard output could not be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] std::io::Error),
    /// The user stopped the command before anything was finished.
    #[error("interrupted; nothing was written")]
    Stopped,
    /// The user stopped the command; finished cells are kept.
    #[error(
        "interrupted: {finished} of {total} cells are finished and kept in `{folder}`; the same command goes on from there"
    )]
    Interrupted {
        /// Finished cells.
        finished: usize,
        /// Cells of the grid.
        total: usize,
        /// The result folder.
        folder: String,
    },
}

impl Failure {
    /// Whoever read standard output has read enough, as `head` does: nothing went wrong.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == ErrorKind::BrokenPipe)
    }

    /// 1 a run failed, 2 the input is wrong, 130 interrupted.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            _ if self.is_closed_pipe() => 0,
            Self::Scenario(_) | Self::Argument(_) | Self::Cell { .. } => 2,
            Self::Store(error) if error.is_wrong_input() => 2,
            Self::Tune(error) if error.is_wrong_input() => 2,
            Self::Run { .. }
            | Self::Machine(_)
            | Self::Driver { .. }
            | Self::NoTime { .. }
            | Self::Tune(_)
            | Self::Store(_)
            | Self::Figure(_)
            | Self::Output(_) => 1,
            Self::Interrupted { .. } | Self::Stopped => 130,
        })
    }
}
