//! From raw structs to a validated scenario.

use std::sync::Arc;

use super::check::Checker;
use super::error::ScenarioError;
use super::raw::RawScenario;
use super::resolve::{Files, Resolver};
use super::source::Source;
use super::tree::{Texts, Tree};
use super::units::NS_PER_US;
use super::{Scenario, model, policy, scheduler, thresholds, workload};

/// The seed of a scenario that names none.
const SEED_DEFAULT: u64 = 1;

/// Reads `source`, taking files from `files` where they are there already.
pub(super) fn parse_with(
    source: Source,
    resolver: &dyn Resolver,
    files: Arc<Files>,
) -> Result<Scenario, ScenarioError> {
    let texts = Texts::new(&source);
    let tree = Tree::parse(&texts)?;
    let raw: RawScenario = tree.deserialize()?;
    let check = Checker { tree: &tree, files: &files, resolver };

    let workload = workload::validate(&check, &raw.workload)?;
    let replications = workload::replications(&check, &raw.workload)?;
    let message_ns = |us| check.duration_ns("scheduler.message_us", us, "us", NS_PER_US);
    let message_ns = raw.scheduler.message_us.map(message_ns).transpose()?;
    let mut models = model::validate(&check, &raw.model, message_ns, workload.tokens_max())?;
    let names: Vec<String> = models.iter().map(|model| model.name.clone()).collect();
    let (policy, policy_config) = policy::validate(&check, &raw.policy, &names)?;
    let not_simulable = policy::not_simulable(&check, policy.as_ref());
    let scheduler = scheduler::validate(&check, &raw.scheduler, &models)?;
    if source.feasibility_check() {
        thresholds::check_feasible(&check, workload.arrivals(), &models)?;
    }
    if matches!(policy_config.kind(), "large-only" | "small-only") {
        // Nobody asks for the routing signal.
        models.iter_mut().for_each(|model| model.router = None);
    }
    drop(tree);
    drop(texts);
    Ok(Scenario {
        seed: raw.seed.unwrap_or(SEED_DEFAULT),
        source,
        files,
        workload,
        replications,
        models,
        policy,
        policy_config,
        not_simulable,
        scheduler,
    })
}
