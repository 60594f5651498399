//! Writes a route record row by row.

use std::io::{self, Write};

use handoff_scheduler::Destination;

use super::{COLUMNS, RecordRow};

/// Writes a route record row by row.
///
/// ```
/// use handoff_scheduler::{ModelIdx, Outcome};
/// use handoff_sim::policy::record::{RecordRow, RecordWriter};
///
/// let mut writer = RecordWriter::new(Vec::new())?;
/// let outcome = Outcome::drop_to(ModelIdx(1));
/// writer.write(&RecordRow { request: 0, step: 0, model: ModelIdx(0), outcome, entropy: Some(0.25) })?;
/// assert!(writer.finish()?.ends_with(b"\n0,0,0,1,false,0.25\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RecordWriter<W> {
    writer: W,
}

impl<W: Write> RecordWriter<W> {
    /// Writes the header. Rows are written one by one, so `writer` should buffer.
    ///
    /// # Errors
    /// If writing fails.
    pub fn new(mut writer: W) -> io::Result<Self> {
        writeln!(writer, "{}", COLUMNS.join(","))?;
        Ok(Self { writer })
    }

    /// Writes one row.
    ///
    /// # Errors
    /// If writing fails, or if no reader would accept the row: its entropy is negative or not finite, it goes to the model where it is, or
    /// it is finished with its last token dropped.
    pub fn write(&mut self, row: &RecordRow) -> io::Result<()> {
        let RecordRow { request, step, model, outcome, entropy } = *row;
        if let Some(problem) = unreadable(row) {
            let text = format!("step {step} of request {request} cannot be recorded: {problem}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        write!(self.writer, "{request},{step},{},", model.0)?;
        match outcome.destination {
            Destination::Stay => write!(self.writer, "stay")?,
            Destination::To(to) => write!(self.writer, "{}", to.0)?,
            Destination::Finished => write!(self.writer, "finished")?,
        }
        write!(self.writer, ",{},", outcome.committed)?;
        match entropy {
            Some(entropy) => writeln!(self.writer, "{entropy}"),
            None => writeln!(self.writer),
        }
    }

    /// Flushes, and gives the writer back.
    ///
    /// # Errors
    /// If flushing fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.flush()?;
        Ok(self.writer)
    }
}

/// Why a reader would refuse the row, if it would.
fn unreadable(row: &RecordRow) -> Option<String> {
    match (row.outcome.destination, row.entropy) {
        (Destination::To(to), _) if to == row.model => Some(format!("it goes to {to}, where it is already")),
        (Destination::Finished, _) if !row.outcome.committed => {
            Some("its last token is dropped, expected committed".to_owned())
        }
        (_, Some(entropy)) if !entropy.is_finite() || entropy < 0.0 => {
            Some(format!("`entropy` is {entropy}, expected a finite number, 0 or more"))
        }
        _ => None,
    }
}
