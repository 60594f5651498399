//! The machine that a scenario runs on for real: its devices, and the models of a scenario loaded onto them.
//!
//! [`Plan::of`] checks everything (device, shapes, files, memory) and allocates nothing; [`Plan::load`] then loads.

mod devices;
mod warm;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

use candle_core::DType;
use clap::{Args, ValueEnum};
use handoff_backend::driver::{Executor, Waiting};
use handoff_backend::memory::{Need, share};
use handoff_backend::profile::Subject;
use handoff_backend::{Prompts, Qwen3Config, Runner, RunnerOptions, Weights};
use handoff_sim::cost::Selection;
use handoff_sim::engine::EngineConfig;
use handoff_sim::scenario::{Checkpoint, CostConfig, ModelSpec, Scenario};

use crate::failure::Failure;

pub(crate) use devices::WIDE_SKINNY_TOKENS_MAX;
pub(crate) use warm::warm_up;

/// Where models run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum DeviceKind {
    /// The processor, in f32: small models, on any machine.
    #[default]
    Cpu,
    /// GPUs, in bf16: the scenario's device numbers are theirs. Needs a build with `--features cuda`.
    Cuda,
}

/// How threads wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum WaitingKind {
    /// Busily if there are cores enough, else asleep.
    #[default]
    Auto,
    /// Asleep until woken, which costs some microseconds a step.
    Blocking,
    /// Busily, which needs a core for every model and one for the scheduler.
    Spinning,
}

/// The machine, as arguments name it.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct MachineArguments {
    /// Where the models run.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) device: DeviceKind,
    /// How threads wait for each other.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) waiting: WaitingKind,
}

/// How much of everything a run may need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests in the system at once.
    pub(crate) requests: u32,
    /// Tokens of the longest request, prompt and output.
    pub(crate) request_tokens: u32,
    /// New tokens of the longest extend row that is warmed up.
    pub(crate) new_tokens: u32,
}

impl Limits {
    /// Requests that a model keeps at once: those in the system, as many again whose release is on its way, and a few.
    pub(crate) fn slots(self) -> u32 {
        self.requests * 2 + 8
    }
}

/// A model that is about to be loaded.
#[derive(Clone, Debug)]
pub(crate) struct PlannedModel {
    /// Its name in the scenario.
    pub(crate) name: String,
    /// The name of its shape, by which a profile knows it.
    pub(crate) shape: String,
    /// Whether its steps are CUDA graphs.
    pub(crate) graph: bool,
    /// Tokens that all its requests together may keep.
    pub(crate) kv_tokens: u64,
    config: Qwen3Config,
    folder: Option<PathBuf>,
    device: u16,
}

/// Models that fit the machine.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// What profiles call the device: `H200`, `cpu`.
    pub(crate) device: String,
    /// How threads wait.
    pub(crate) waiting: Waiting,
    /// In index order.
    pub(crate) models: Vec<PlannedModel>,
    kind: DeviceKind,
    limits: Limits,
    seed: u64,
    base: EngineConfig,
}

impl Plan {
    /// Looks at the machine and at everything that the models name, and works out how much memory each gets.
    ///
    /// # Errors
    /// A device that is not there, a shape that nobody knows, a folder without a usable configuration, models that share no vocabulary, too
    /// little memory. All are [`Failure::Argument`].
    pub(crate) fn of(
        scenario: &Scenario,
        folder: Option<&Path>,
        machine: MachineArguments,
        limits: Limits,
    ) -> Result<Self, Failure> {
        let slots = u64::from(limits.slots());
        let mut models = Vec::new();
        for model in scenario.models() {
            models.push(planned(model, folder, machine.device)?);
        }
        if let [first, others @ ..] = &models[..]
            && let Some(other) = others.iter().find(|other| other.config.vocabulary != first.config.vocabulary)
        {
            return Err(Failure::Argument(format!(
                "the vocabulary of `{}` ({}) has {} tokens and that of `{}` ({}) has {}, expected the same, since they continue each other's text",
                other.name, other.shape, other.config.vocabulary, first.name, first.shape, first.config.vocabulary
            )));
        }
        for model in &models {
            if model.config.positions_max < limits.request_tokens as usize {
                return Err(Failure::Argument(format!(
                    "`{}` ({}) takes {} tokens at most, but prompt and output may reach {}",
                    model.name, model.shape, model.config.positions_max, limits.request_tokens
                )));
            }
        }
        let mut by_device: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (idx, model) in models.iter().enumerate() {
            // A processor is one device, whatever the scenario calls it.
            let device = if machine.device == DeviceKind::Cpu { 0 } else { model.device };
            by_device.entry(device).or_default().push(idx);
        }
        let mut name = String::new();
        for (&device, idxs) in &by_device {
            let found = devices::look(machine.device, device)?;
            let element_bytes = if machine.device == DeviceKind::Cpu { 4 } else { 2 };
            let request_tokens = u64::from(limits.request_tokens) + 1;
            let needs: Vec<Need> = idxs
                .iter()
                .map(|&idx| Need::of(&models[idx].name, &models[idx].config, element_bytes, slots, request_tokens))
                .map(|need| Need { kv_tokens_wanted: u64::from(limits.requests) * request_tokens, ..need })
                .collect();
            let tokens =
                share(&found.name, found.free_bytes, &needs).map_err(|error| Failure::Argument(error.to_string()))?;
            for (&idx, kv_tokens) in idxs.iter().zip(tokens) {
                models[idx].kv_tokens = kv_tokens.min(scenario.models()[idx].kv_tokens);
            }
            name = found.name;
        }
        let waiting = match machine.waiting {
            WaitingKind::Blocking => Waiting::Blocking,
            WaitingKind::Spinning => Waiting::Spinning,
            // A processor computes on the cores that a spinning thread would take away.
            WaitingKind::Auto if machine.device == DeviceKind::Cpu => Waiting::Blocking,
            WaitingKind::Auto => match available_parallelism() {
                Ok(cores) if cores.get() > models.len() + 1 => Waiting::Spinning,
                _ => Waiting::Blocking,
            },
        };
        let (kind, seed, base) = (machine.device, scenario.seed(), EngineConfig::from(scenario));
        Ok(Self { device: name, waiting, models, kind, limits, seed, base })
    }

    /// What runs, with the KV budgets that the machine has.
    pub(crate) fn config(&self, scenario: &Scenario) -> EngineConfig {
        let mut config = EngineConfig::from(scenario);
        for (model, planned) in config.models.iter_mut().zip(&self.models) {
            model.kv.budget_tokens = model.kv.budget_tokens.min(planned.kv_tokens);
        }
        config
    }

    /// The scenario's configuration for looking whether a profile covers it: costs are replaced by then.
    pub(crate) fn unprofiled(&self) -> EngineConfig {
        self.base.clone()
    }

    /// The same models with or without CUDA graphs.
    pub(crate) fn with_graph(&self, graph: bool) -> Self {
        let mut plan = self.clone();
        plan.models.iter_mut().for_each(|model| model.graph = graph);
        plan
    }

    /// Requests in the system at once, at most.
    pub(crate) fn requests_max(&self) -> u32 {
        self.limits.requests
    }

    /// Tokens of the longest request.
    pub(crate) fn request_tokens_max(&self) -> u32 {
        self.limits.request_tokens
    }

    /// A loaded model as something to be profiled.
    pub(crate) fn subject<'e>(&self, idx: usize, executor: &'e mut dyn Executor) -> Subject<'e> {
        let model = &self.models[idx];
        Subject {
            model: model.shape.clone(),
            graph: model.graph,
            executor,
            slots: self.limits.slots(),
            kv_tokens_max: model.kv_tokens,
            request_tokens_max: self.limits.request_tokens + 1,
        }
    }

    /// What a manifest says about the device.
    pub(crate) fn described(&self) -> String {
        let models: Vec<String> = self.models.iter().map(|model| model.shape.clone()).collect();
        format!("{} ({}, {} weights)", self.device, models.join(" + "), self.weights())
    }

    /// Prompts from a file, for the model at which requests enter.
    pub(crate) fn prompts(&self, file: &Path, scenario: &Scenario) -> Result<Arc<Prompts>, Failure> {
        let entry = &self.models[scenario.policy().entry().idx()];
        let tokenizer = entry.folder.as_ref().map(|folder| folder.join("tokenizer.json")).filter(|path| path.is_file());
        let vocabulary = u32::try_from(entry.config.vocabulary).unwrap_or(u32::MAX);
        let prompts = Prompts::read(file, tokenizer.as_deref(), vocabulary);
        prompts.map(Arc::new).map_err(|error| Failure::Argument(error.to_string()))
    }

    /// What the results say about the weights.
    pub(crate) fn weights(&self) -> &'static str {
        if self.models.iter().all(|model| model.folder.is_none()) { "dummy" } else { "files" }
    }

    /// Where a profile has the points of each model.
    pub(crate) fn selections(&self) -> Vec<Selection> {
        let selection = |model: &PlannedModel| Selection {
            device: Some(self.device.clone()),
            ..Selection::new(&model.shape, model.graph)
        };
        self.models.iter().map(selection).collect()
    }

    /// Loads one model.
    pub(crate) fn load_one(&self, idx: usize) -> Result<Runner, Failure> {
        let model = &self.models[idx];
        let weights = match &model.folder {
            None => Weights::dummy(self.seed ^ (idx as u64 + 1)),
            Some(folder) => Weights::open(folder).map_err(|error| Failure::Argument(error.to_string()))?,
        };
        let options = RunnerOptions {
            kv_tokens: usize::try_from(model.kv_tokens).unwrap_or(usize::MAX),
            slots: self.limits.slots() as usize,
            request_tokens_max: self.limits.request_tokens as usize + 1,
        };
        let runner = match self.kind {
            DeviceKind::Cpu => Runner::cpu(&model.config, &weights, DType::F32, options),
            DeviceKind::Cuda => devices::cuda_runner(&model.config, &weights, options, model.device, model.graph),
        };
        runner.map_err(|error| Failure::Machine(format!("`{}` ({}): {error}", model.name, model.shape)))
    }

    /// Loads all models, and runs every shape of step often enough that the first measured one is like the others.
    pub(crate) fn load(&self) -> Result<Vec<Box<dyn Executor>>, Failure> {
        (0..self.models.len())
            .map(|idx| {
                let mut runner = self.load_one(idx)?;
                warm_up(&mut runner, self.limits)
                    .map_err(|error| Failure::Machine(format!("`{}`: {error}", self.models[idx].name)))?;
                Ok(Box::new(runner) as Box<dyn Executor>)
            })
            .collect()
    }
}

fn planned(model: &ModelSpec, scenario_folder: Option<&Path>, kind: DeviceKind) -> Result<PlannedModel, Failure> {
    let wrong = |error: String| Failure::Argument(format!("model `{}`: {error}", model.name));
    let (shape, config, folder) = match &model.checkpoint {
        None => {
            return Err(wrong(format!(
                "the scenario does not say what to load, expected `shape` (one of {}) or `folder`, a checkpoint",
                Qwen3Config::NAMES.join(", ")
            )));
        }
        Some(Checkpoint::Shape(shape)) => {
            let config = Qwen3Config::built_in(shape).map_err(|error| wrong(error.to_string()))?;
            (shape.clone(), config, None)
        }
        Some(Checkpoint::Folder(folder)) => {
            let path = scenario_folder.map_or_else(|| PathBuf::from(folder), |base| base.join(folder));
            let config = Qwen3Config::from_folder(&path).map_err(|error| wrong(error.to_string()))?;
            // Opened only to refuse it early: the tensors are read when the model is loaded.
            Weights::open(&path).map_err(|error| wrong(error.to_string()))?;
            let name = path.file_name().map_or_else(|| folder.clone(), |name| name.to_string_lossy().into_owned());
            (name, config, Some(path))
        }
    };
    let graph = match &model.cost {
        CostConfig::Profile { selection, .. } if selection.graph != selection.extend_graph => {
            return Err(wrong(
                "`extend_graph` differs from `graph`, which only a simulation can tell apart".to_owned(),
            ));
        }
        CostConfig::Profile { selection, .. } => selection.graph,
        _ => kind == DeviceKind::Cuda,
    };
    Ok(PlannedModel {
        name: model.name.clone(),
        shape,
        graph: graph && kind == DeviceKind::Cuda,
        kv_tokens: model.kv_tokens,
        config,
        folder,
        device: model.device,
    })
}
