//! `--graph-report` and `--graph-dot`: the model's graph as data.

use std::fs;
use std::path::Path;

use zinc_graph::backend::KvFormat;
use zinc_graph::report::{Report, ReportFor};

use crate::args::generate::GenerateArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{bytes, count, note};
use crate::session::ModelFile;

/// Keys that attention reads in the report's step.
const CONTEXT: u64 = 4096;

pub(crate) fn write(file: &ModelFile, args: &GenerateArgs) -> Outcome {
    let model = file.model()?;
    let dtypes = model.dtypes(&file.gguf).map_err(Failure::model)?;
    let context = CONTEXT.min(u64::from(model.context_train));
    let of = ReportFor { dtypes: &dtypes, n_tokens: 1, context, kv_format: KvFormat::F16 };
    let report = Report::new(&model.graph, &of);
    note(&format!(
        "graph: {} nodes, {} edges, longest chain {}, {} of weights; one token at {context}: {} moved, {} FLOP",
        report.n_nodes,
        report.n_edges,
        report.critical_path,
        bytes(report.weight_bytes),
        bytes(report.bytes),
        count(report.flops)
    ));
    if let Some(path) = &args.graph_report {
        let json = serde_json::to_string_pretty(&report).map_err(Failure::failed)?;
        save(path, &json)?;
    }
    if let Some(path) = &args.graph_dot {
        save(path, &report.to_dot())?;
    }
    Ok(())
}

fn save(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|e| Failure::failed(format!("cannot write {}: {e}", path.display())))
}
