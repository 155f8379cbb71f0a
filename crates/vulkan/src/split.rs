//! Long steps in parts: a driver's watchdog ends what holds the queue too long (amdgpu: 2 to 10 s), and a desktop on the same
//! card does not move meanwhile.
//!
//! A step is cut between phases, by an estimate of their time: the bytes that a phase moves and the operations it makes, at the
//! rates of a slow device of its kind. The estimate errs to the long side; a part too many costs some microseconds.

use std::ops::Range;
use std::time::Duration;

use ash::vk;
use zinc_graph::Graph;
use zinc_graph::report::{ReportFor, node_bytes, node_flops, node_label};

/// Milliseconds of the longest part of a step, unless the caller says otherwise.
pub const LIMIT_MS: u32 = 300;

/// Rates of a slow device of some kind: assumptions, not measurements.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    bytes_per_s: f64,
    flops_per_s: f64,
}

impl Pace {
    /// For devices of this kind.
    #[must_use]
    pub fn of(kind: vk::PhysicalDeviceType) -> Pace {
        let (bytes_per_s, flops_per_s) = match kind {
            vk::PhysicalDeviceType::DISCRETE_GPU => (200e9, 4e12),
            vk::PhysicalDeviceType::CPU => (4e9, 10e9),
            _ => (40e9, 0.4e12),
        };
        Pace { bytes_per_s, flops_per_s }
    }

    /// Seconds that a phase of these nodes takes at most, by estimate.
    #[must_use]
    pub fn seconds(self, graph: &Graph, nodes: &[usize], of: &ReportFor<'_>) -> f64 {
        let sum = |count: fn(&Graph, &zinc_graph::section::Node, &ReportFor<'_>) -> u64| {
            nodes.iter().map(|&n| count(graph, &graph.nodes[n], of) as f64).sum::<f64>()
        };
        sum(node_bytes) / self.bytes_per_s + sum(node_flops) / self.flops_per_s
    }
}

/// Cuts phases of these lengths into parts of at most `limit`, as far as single phases allow.
#[must_use]
pub fn parts(seconds: &[f64], limit: Duration) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut sum = 0.0;
    for (index, &phase) in seconds.iter().enumerate() {
        match parts.last_mut() {
            Some(part) if sum + phase <= limit.as_secs_f64() => {
                part.end = index + 1;
                sum += phase;
            }
            _ => {
                parts.push(index..index + 1);
                sum = phase;
            }
        }
    }
    if parts.is_empty() {
        parts.push(0..0);
    }
    parts
}

/// What a part does, for people: its first and its last op.
#[must_use]
pub fn label(graph: &Graph, phases: &[Vec<usize>], of: &ReportFor<'_>) -> String {
    let nodes: Vec<usize> = phases.iter().flatten().copied().collect();
    let name = |&n: &usize| node_name(graph, n, of);
    match (nodes.iter().min(), nodes.iter().max()) {
        (Some(first), Some(last)) if first != last => format!("{} to {}", name(first), name(last)),
        (Some(only), _) => name(only),
        _ => "no op".to_owned(),
    }
}

/// What a phase does, for people: each of its ops, with the weights that it reads.
#[must_use]
pub fn phase_label(graph: &Graph, nodes: &[usize], of: &ReportFor<'_>) -> String {
    let name = |&n: &usize| {
        let weights = graph.nodes[n].weights.as_slice().iter().map(|w| graph.weights[usize::from(w.0)].name.as_str());
        let weights: Vec<&str> = weights.collect();
        let weights = if weights.is_empty() { String::new() } else { format!(" ({})", weights.join(", ")) };
        format!("{}{weights}", node_name(graph, n, of))
    };
    nodes.iter().map(name).collect::<Vec<_>>().join(" beside ")
}

fn node_name(graph: &Graph, n: usize, of: &ReportFor<'_>) -> String {
    let place = graph.layer_of_node[n].map_or(String::new(), |layer| format!(" of layer {layer}"));
    format!("{}{place}", node_label(graph, &graph.nodes[n], of))
}

#[cfg(test)]
mod tests {
    use zinc_gguf::DType;
    use zinc_graph::backend::KvFormat;
    use zinc_graph::section::Builder;
    use zinc_graph::shape::Shape;

    use super::*;

    #[test]
    fn a_phase_is_named_by_its_ops_and_their_weights() {
        let mut builder = Builder::new("test");
        let x = builder.input(Shape::tokens(64));
        let (query, key) = (builder.matrix("attn_q", 64, 128), builder.matrix("attn_k", 64, 64));
        let (q, k) = (builder.matmul(x, query), builder.matmul(x, key));
        let sum = builder.add(k, k);
        builder.output(q);
        builder.output(sum);
        let graph = Graph::from_section(&builder.finish().unwrap()).unwrap();
        let dtypes = [DType::Q4_K, DType::Q6_K];
        let of = ReportFor { dtypes: &dtypes, n_tokens: 1, context: 0, kv_format: KvFormat::F16 };
        assert_eq!(
            phase_label(&graph, &[0, 1], &of),
            "matmul Q4_K 64x128 of layer 0 (blk.0.attn_q) beside matmul Q6_K 64x64 of layer 0 (blk.0.attn_k)"
        );
        assert_eq!(phase_label(&graph, &[2], &of), "add 64 of layer 0");
    }

    #[test]
    fn parts_hold_every_phase_once_and_keep_to_the_limit_where_they_can() {
        let limit = Duration::from_millis(300);
        let ends =
            |seconds: &[f64]| parts(seconds, limit).iter().map(|part| (part.start, part.end)).collect::<Vec<_>>();
        for (seconds, expected) in [
            (&[0.09, 0.1, 0.1, 0.2][..], &[(0, 3), (3, 4)][..]),
            (&[0.5, 0.1, 0.1], &[(0, 1), (1, 3)]),
            (&[0.1, 0.5, 0.1], &[(0, 1), (1, 2), (2, 3)]),
            (&[0.01; 5], &[(0, 5)]),
            (&[], &[(0, 0)]),
        ] {
            assert_eq!(ends(seconds), expected, "{seconds:?}");
        }
        assert_eq!(parts(&[0.01; 3], Duration::ZERO).len(), 3);
    }
}
