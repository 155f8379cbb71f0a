//! Whether models fit this machine, before anything is loaded.
//!
//! The state is planned by the function that loading plans it with, the rest comes from the backend's own layout; nothing
//! is opened but the model's header. A model of the catalog that is not here has the layers that the catalog declares and
//! the weights of its whole file, which is a little more than they are.

use clap::ValueEnum as _;
use zinc_engine::config::ConfigError;
use zinc_engine::fit::{Needs, Room};
use zinc_graph::{Footprint, Graph};
use zinc_hub::catalog::Entry;
use zinc_models::Model;

use crate::args::shared::{DeviceArgs, KvType};
use crate::device::{self, Devices};
use crate::failure::Failure;
use crate::session::{ModelFile, engine_error, plan, step_tokens, usual_context};

/// A device's memory, without opening it.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    /// Its id, as `--device` takes it.
    pub(crate) device: String,
    /// Its name for people.
    pub(crate) name: String,
    /// Bytes that a model may take; `None` if the system does not say.
    pub(crate) budget_bytes: Option<u64>,
}

impl Space {
    /// That of the device that is named.
    pub(crate) fn of(named: &str) -> Result<Space, Failure> {
        let devices = Devices::find();
        let id = match named {
            "auto" => devices.best(),
            id => id.to_owned(),
        };
        if id == "cpu" {
            let budget_bytes = zinc_cpu::memory::available_bytes();
            return Ok(Space { device: id, name: zinc_cpu::description(), budget_bytes });
        }
        let gpu = zinc_vulkan::candidate::find(&devices.gpus, &id).map_err(|e| device::failure(&e))?;
        Ok(Space { device: gpu.id.clone(), name: gpu.name.clone(), budget_bytes: Some(gpu.memory.free_bytes()) })
    }

    /// What the device's backend takes; `sequences` run at once, of `n_slots` states.
    fn footprint(
        &self,
        graph: &Graph,
        sizes: &[u64],
        args: &DeviceArgs,
        (sequences, n_slots): (u32, u32),
    ) -> Result<Footprint, Failure> {
        let step_tokens = step_tokens(args);
        Ok(match self.device.as_str() {
            "cpu" => zinc_cpu::footprint(graph, sizes, device::threads(args)?, step_tokens, sequences),
            _ => zinc_vulkan::footprint(graph, sizes, step_tokens, n_slots),
        })
    }
}

/// What was found out about a model on a device.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    /// Tokens of context that were asked for, or that the model has by default.
    pub(crate) context_tokens: u32,
    /// What it takes with that context.
    pub(crate) needs: Needs,
    /// What there is, if that is known.
    pub(crate) budget_bytes: Option<u64>,
    /// The longest context that fits in each format of keys and values, the one that was asked for first; `None` where
    /// the model does not fit at all.
    pub(crate) longest: Vec<(KvType, Option<u32>)>,
}

impl Fit {
    /// Whether it fits as asked; `None` if nobody knows how much there is.
    pub(crate) fn is_ok(&self) -> Option<bool> {
        self.budget_bytes.map(|budget| self.needs.total_bytes() <= budget)
    }

    /// The longest context in the format that was asked for.
    pub(crate) fn context_max(&self) -> Option<u32> {
        self.longest.first().and_then(|(_, tokens)| *tokens)
    }

    /// A format that makes a longer context fit.
    pub(crate) fn better(&self) -> Option<(KvType, u32)> {
        let longest = self.longest.iter().filter_map(|(kv_type, tokens)| Some((*kv_type, (*tokens)?)));
        longest.max_by_key(|(_, tokens)| *tokens).filter(|(_, tokens)| Some(*tokens) > self.context_max())
    }
}

/// A model's file on the device that the arguments name.
pub(crate) fn of_file(file: &ModelFile, args: &DeviceArgs, space: &Space) -> Result<Fit, Failure> {
    let model = file.model()?;
    let sizes = model.weight_sizes(&file.gguf).map_err(Failure::model)?;
    let Model { graph, context_train, .. } = &model;
    let context_tokens = args.context.unwrap_or_else(|| usual_context(file.entry, *context_train));
    fit(graph, &sizes, (context_tokens, *context_train), args, space)
}

/// A model of the catalog, by what the catalog knows of it.
pub(crate) fn of_entry(entry: &Entry, args: &DeviceArgs, space: &Space) -> Result<Fit, Failure> {
    let declaration = (entry.declare)().map_err(|_| Failure::failed(format!("{} declares no model", entry.id)))?;
    let graph = declaration.blueprint().unroll().map_err(Failure::failed)?;
    let mut sizes = vec![0; graph.weights.len()];
    sizes.iter_mut().take(1).for_each(|size| *size = entry.size_bytes);
    let context_tokens = args.context.unwrap_or_else(|| usual_context(Some(entry), entry.context_train));
    fit(&graph, &sizes, (context_tokens, entry.context_train), args, space)
}

fn fit(
    graph: &Graph,
    sizes: &[u64],
    (context_tokens, context_train): (u32, u32),
    args: &DeviceArgs,
    space: &Space,
) -> Result<Fit, Failure> {
    let refused = |error: ConfigError| engine_error(error.into());
    let config = plan(args, graph, context_tokens).map_err(refused)?;
    let slots = (config.sequences_max, config.limits(graph).map_err(refused)?.state.n_slots);
    let footprint = space.footprint(graph, sizes, args, slots)?;
    let room = Room { graph, footprint, budget_bytes: space.budget_bytes.unwrap_or(u64::MAX) };
    let others = KvType::value_variants().iter().filter(|kv_type| **kv_type != args.kv_type);
    let longest = |kv_type: KvType| {
        let args = DeviceArgs { kv_type, ..args.clone() };
        room.longest_context(context_train, |tokens| plan(&args, graph, tokens))
    };
    let formats = std::iter::once(&args.kv_type).chain(others);
    let longest = formats.map(|kv_type| (*kv_type, longest(*kv_type))).collect();
    Ok(Fit { context_tokens, needs: room.needs(config).map_err(refused)?, budget_bytes: space.budget_bytes, longest })
}
