//! The JSON document and the CSV rows of `tune`. Units are in the names; throughput is in tokens per second.

use handoff_sim::analytic::tune::{
    ByActive, Candidate, Confirmation, Curve, GridStep, Method, Sensitivity, Statement, Tuning,
};
use handoff_sim::scenario::Scenario;
use serde::{Deserialize, Serialize};

/// One vector of thresholds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CandidateDocument {
    pub(super) thresholds: Vec<u32>,
    pub(super) throughput: f64,
    pub(super) method: Method,
    pub(super) ci_low: Option<f64>,
    pub(super) ci_high: Option<f64>,
    pub(super) replications: u32,
    /// Share of throughput lost against the best.
    pub(super) loss: f64,
}

/// A row of rows.csv: one vector, best first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(super) rank: usize,
    pub(super) placement: String,
    pub(super) order: Option<String>,
    pub(super) concurrency: u32,
    /// One threshold a model, separated by blanks.
    pub(super) thresholds: String,
    pub(super) throughput: f64,
    pub(super) ci_low: Option<f64>,
    pub(super) ci_high: Option<f64>,
    pub(super) loss: f64,
    pub(super) method: String,
    pub(super) replications: u32,
}

impl Row {
    /// The thresholds as numbers, at least one.
    ///
    /// # Errors
    /// When they are not; the text says what was expected.
    pub(super) fn vector(&self) -> Result<Vec<u32>, String> {
        let numbers: Result<Vec<u32>, _> = self.thresholds.split_whitespace().map(str::parse).collect();
        numbers.ok().filter(|numbers| !numbers.is_empty()).ok_or_else(|| {
            let text = &self.thresholds;
            format!("`thresholds` of rank {} is \"{text}\", expected whole numbers separated by blanks", self.rank)
        })
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct GridDocument {
    pub(super) model: String,
    pub(super) grid_ms: f64,
    /// The shortest and the longest step on the grid.
    pub(super) step_low_ms: f64,
    pub(super) step_high_ms: f64,
    /// Largest change of a step time by rounding. It bounds no error of the throughput.
    pub(super) rounding_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct StatementDocument {
    pub(super) placement: &'static str,
    pub(super) name: &'static str,
    pub(super) value: Option<f64>,
    pub(super) pays: Option<bool>,
    pub(super) text: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct CurveDocument {
    pub(super) method: &'static str,
    pub(super) points: Vec<PointDocument>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct PointDocument {
    pub(super) threshold: u32,
    pub(super) throughput: f64,
    pub(super) ci_low: Option<f64>,
    pub(super) ci_high: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ConfirmedDocument {
    pub(super) thresholds: Vec<u32>,
    pub(super) throughput: f64,
    pub(super) ci_low: f64,
    pub(super) ci_high: f64,
    /// Relative difference to the best candidate under the same seeds; above 0 it is better than the choice.
    pub(super) ahead: f64,
    pub(super) ahead_low: f64,
    pub(super) ahead_high: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ConfirmationDocument {
    /// Share of throughput that the choice loses against the best of these candidates on fresh seeds.
    pub(super) regret: f64,
    pub(super) regret_low: f64,
    pub(super) regret_high: f64,
    pub(super) replications: u32,
    pub(super) candidates: Vec<ConfirmedDocument>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ElasticityDocument {
    pub(super) name: String,
    pub(super) elasticity: f64,
    pub(super) ci_low: f64,
    pub(super) ci_high: f64,
    pub(super) is_time: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct SensitivityDocument {
    pub(super) elasticities: Vec<ElasticityDocument>,
    /// Sum over all times; -1 but for noise and curvature.
    pub(super) times_sum: f64,
    pub(super) times_sum_ci_low: f64,
    pub(super) times_sum_ci_high: f64,
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ByActiveDocument {
    /// Per model: entry n - 1 is the threshold while n requests are in the system.
    pub(super) lists: Vec<Vec<u32>>,
    /// The same as overrides of a scenario.
    pub(super) sets: Vec<String>,
    pub(super) throughput: Vec<f64>,
    pub(super) methods: Vec<Method>,
}

/// The whole document.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Document {
    pub(super) scenario: String,
    pub(super) policy: String,
    pub(super) placement: String,
    pub(super) order: Option<String>,
    pub(super) concurrency: u32,
    pub(super) models: Vec<String>,
    pub(super) seed: u64,
    pub(super) best: CandidateDocument,
    /// The method behind the best.
    pub(super) method: Method,
    pub(super) candidates: Vec<CandidateDocument>,
    /// Number of feasible vectors; those that are not among the candidates were pruned.
    pub(super) n_feasible: f64,
    pub(super) notes: Vec<String>,
    pub(super) grid: Vec<GridDocument>,
    /// Largest |pi P - pi| of the chains solved.
    pub(super) residual: Option<f64>,
    pub(super) statements: Vec<StatementDocument>,
    /// Throughput against the threshold of the last model, the others at their best.
    pub(super) curves: Vec<CurveDocument>,
    pub(super) confirmation: Option<ConfirmationDocument>,
    pub(super) sensitivity: Option<SensitivityDocument>,
    pub(super) by_active: Option<ByActiveDocument>,
}

impl Document {
    #[expect(clippy::too_many_arguments, reason = "each is one part of the document")]
    pub(super) fn new(
        name: &str,
        scenario: &Scenario,
        tuning: Tuning,
        curves: &[Curve],
        statements: &[Statement],
        confirmation: Option<Confirmation>,
        sensitivity: Option<Sensitivity>,
        by_active: Option<ByActive>,
    ) -> Self {
        let placement = scenario.placement();
        Self {
            scenario: name.to_owned(),
            policy: scenario.policy().kind().to_owned(),
            placement: placement.as_str().to_owned(),
            order: placement.order().map(|order| order.to_string()),
            concurrency: scenario.workload().arrivals().concurrency().unwrap_or_default(),
            models: scenario.models().iter().map(|model| model.name.clone()).collect(),
            seed: scenario.seed(),
            best: candidate(tuning.best()),
            method: tuning.method,
            candidates: tuning.candidates.iter().map(candidate).collect(),
            n_feasible: tuning.n_feasible,
            notes: tuning.notes,
            grid: tuning.grid_steps.iter().map(grid).collect(),
            residual: tuning.residual,
            statements: statements.iter().map(statement).collect(),
            curves: curves.iter().map(curve).collect(),
            confirmation: confirmation.map(confirmed),
            sensitivity: sensitivity.map(elasticities),
            by_active: by_active.map(|found| ByActiveDocument {
                sets: found.sets(),
                lists: found.lists,
                throughput: found.throughput,
                methods: found.methods,
            }),
        }
    }

    /// The rows of rows.csv.
    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |(position, candidate): (usize, &CandidateDocument)| Row {
            rank: position + 1,
            placement: self.placement.clone(),
            order: self.order.clone(),
            concurrency: self.concurrency,
            thresholds: spaced(&candidate.thresholds),
            throughput: candidate.throughput,
            ci_low: candidate.ci_low,
            ci_high: candidate.ci_high,
            loss: candidate.loss,
            method: candidate.method.to_string(),
            replications: candidate.replications,
        };
        self.candidates.iter().enumerate().map(row).collect()
    }

    /// The candidate with threshold 1 everywhere.
    pub(super) fn eager(&self) -> Option<&CandidateDocument> {
        self.candidates.iter().find(|candidate| candidate.thresholds.iter().all(|&threshold| threshold == 1))
    }
}

/// `1 3`.
pub(super) fn spaced(thresholds: &[u32]) -> String {
    thresholds.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn candidate(candidate: &Candidate) -> CandidateDocument {
    CandidateDocument {
        thresholds: candidate.thresholds.clone(),
        throughput: candidate.throughput,
        method: candidate.method,
        ci_low: candidate.half_width.map(|half_width| candidate.throughput - half_width),
        ci_high: candidate.half_width.map(|half_width| candidate.throughput + half_width),
        replications: candidate.replications,
        loss: candidate.loss,
    }
}

fn grid(step: &GridStep) -> GridDocument {
    GridDocument {
        model: step.model.clone(),
        grid_ms: step.grid_s * 1e3,
        step_low_ms: step.step_s.0 * 1e3,
        step_high_ms: step.step_s.1 * 1e3,
        rounding_ms: step.rounding_s * 1e3,
    }
}

fn statement(statement: &Statement) -> StatementDocument {
    let Statement { placement, name, value, pays, text } = statement.clone();
    StatementDocument { placement, name, value, pays, text }
}

fn curve(curve: &Curve) -> CurveDocument {
    let points = curve.points.iter().map(|point| PointDocument {
        threshold: point.threshold,
        throughput: point.throughput,
        ci_low: point.half_width.map(|half_width| point.throughput - half_width),
        ci_high: point.half_width.map(|half_width| point.throughput + half_width),
    });
    CurveDocument { method: curve.name, points: points.collect() }
}

fn confirmed(confirmation: Confirmation) -> ConfirmationDocument {
    let candidates = confirmation.candidates.into_iter().map(|own| ConfirmedDocument {
        throughput: own.throughput,
        ci_low: own.throughput - own.half_width,
        ci_high: own.throughput + own.half_width,
        ahead: own.ahead,
        ahead_low: own.ahead_interval.0,
        ahead_high: own.ahead_interval.1,
        thresholds: own.thresholds,
    });
    ConfirmationDocument {
        regret: confirmation.regret,
        regret_low: confirmation.regret_interval.0,
        regret_high: confirmation.regret_interval.1,
        replications: confirmation.replications,
        candidates: candidates.collect(),
    }
}

fn elasticities(sensitivity: Sensitivity) -> SensitivityDocument {
    let elasticities = sensitivity.elasticities.into_iter().map(|own| ElasticityDocument {
        is_time: own.quantity.is_time(),
        name: own.name,
        elasticity: own.elasticity,
        ci_low: own.elasticity - own.half_width,
        ci_high: own.elasticity + own.half_width,
    });
    SensitivityDocument {
        elasticities: elasticities.collect(),
        times_sum: sensitivity.times_sum,
        times_sum_ci_low: sensitivity.times_sum - sensitivity.times_sum_half_width,
        times_sum_ci_high: sensitivity.times_sum + sensitivity.times_sum_half_width,
        notes: sensitivity.notes,
    }
}
