//! Counters of the server and the engines, in Prometheus' text format: under names of our own and under vLLM's, so that
//! routers which read those can balance over several instances.

mod histogram;

use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use histogram::Histogram;

use crate::engine::Stats;
use crate::generate::Summary;
use crate::models::Model;

/// Tokens of a page.
const PAGE_TOKENS: u32 = 16;

/// What the server counts itself; engines count the rest.
pub(crate) struct Metrics {
    /// Answers by class of status: 1xx to 5xx.
    responses: [AtomicU64; 5],
    /// Connections that are open.
    pub(crate) connections: AtomicU64,
    /// Requests that were generated to the end.
    successes: AtomicU64,
    /// Streams whose client went away.
    pub(crate) gone: AtomicU64,
    first_token: Histogram,
    per_token: Histogram,
    whole: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    prompt_tokens: Histogram,
    generation_tokens: Histogram,
}

const SECONDS: &[f64] =
    &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
const STEP_SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5];
const LONG_SECONDS: &[f64] =
    &[0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 120.0, 240.0, 480.0];
const TOKENS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 50_000.0,
    100_000.0,
];

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            responses: Default::default(),
            connections: AtomicU64::new(0),
            successes: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            first_token: Histogram::new(SECONDS),
            per_token: Histogram::new(STEP_SECONDS),
            whole: Histogram::new(LONG_SECONDS),
            queue: Histogram::new(LONG_SECONDS),
            prefill: Histogram::new(LONG_SECONDS),
            decode: Histogram::new(LONG_SECONDS),
            prompt_tokens: Histogram::new(TOKENS),
            generation_tokens: Histogram::new(TOKENS),
        }
    }
}

impl Metrics {
    /// An answer was given.
    pub(crate) fn response(&self, status: u16) {
        if let Some(count) = self.responses.get(usize::from(status / 100).wrapping_sub(1)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A generation came to its end.
    pub(crate) fn generated(&self, summary: &Summary) {
        self.successes.fetch_add(1, Ordering::Relaxed);
        if let Some(first) = summary.first_token {
            self.first_token.observe(first.as_secs_f64());
        }
        if summary.completion_tokens > 1 {
            self.per_token.observe(summary.decode.as_secs_f64() / f64::from(summary.completion_tokens - 1));
        }
        self.whole.observe((summary.queued + summary.prefill + summary.decode).as_secs_f64());
        self.queue.observe(summary.queued.as_secs_f64());
        self.prefill.observe(summary.prefill.as_secs_f64());
        self.decode.observe(summary.decode.as_secs_f64());
        self.prompt_tokens.observe(f64::from(summary.prompt_tokens));
        self.generation_tokens.observe(f64::from(summary.completion_tokens));
    }

    /// The page that a collector reads.
    pub(crate) fn text(&self, models: &[Arc<Model>]) -> String {
        let mut page = Page(String::with_capacity(16 << 10));
        let stats: Vec<(&Model, Stats)> = models.iter().map(|m| (m.as_ref(), m.loaded.generator.stats())).collect();
        self.server(&mut page);
        for (name, kind, help, value) in ENGINE {
            page.family(name, kind, help, stats.iter().map(|(model, stats)| (label(model), value(stats))));
        }
        page.family(
            "vllm:cache_config_info",
            "gauge",
            "Pages of the key/value cache.",
            stats.iter().map(|(model, stats)| {
                let name = escaped(&model.id);
                (
                    format!(
                        "{{block_size=\"{PAGE_TOKENS}\",num_gpu_blocks=\"{}\",model_name=\"{name}\"}}",
                        stats.n_pages
                    ),
                    1.0,
                )
            }),
        );
        // Histograms are of the server as a whole; routers ask for a label, and one model is the usual case.
        let name = match models {
            [one] => escaped(&one.id),
            _ => "all".to_owned(),
        };
        for (name_ours, name_vllm, help, histogram) in self.histograms() {
            page.histogram(name_ours, help, &name, histogram);
            page.histogram(name_vllm, help, &name, histogram);
        }
        page.0
    }

    fn server(&self, page: &mut Page) {
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        let rows = classes.iter().zip(&self.responses).map(|(class, n)| (format!("{{class=\"{class}\"}}"), count(n)));
        page.family("zinc_http_responses_total", "counter", "Answers by class of status.", rows);
        page.family("zinc_http_connections", "gauge", "Open connections.", [(String::new(), count(&self.connections))]);
        page.family(
            "zinc_streams_gone_total",
            "counter",
            "Streams whose client went away.",
            [(String::new(), count(&self.gone))],
        );
        page.family(
            "zinc_generations_total",
            "counter",
            "Generations that came to their end.",
            [(String::new(), count(&self.successes))],
        );
    }

    fn histograms(&self) -> [(&'static str, &'static str, &'static str, &Histogram); 8] {
        [
            (
                "zinc_time_to_first_token_seconds",
                "vllm:time_to_first_token_seconds",
                "From submission to the first token.",
                &self.first_token,
            ),
            (
                "zinc_time_per_output_token_seconds",
                "vllm:time_per_output_token_seconds",
                "Mean time of a token after the first.",
                &self.per_token,
            ),
            ("zinc_request_seconds", "vllm:e2e_request_latency_seconds", "A whole request.", &self.whole),
            (
                "zinc_request_queue_seconds",
                "vllm:request_queue_time_seconds",
                "A request's time in the queue.",
                &self.queue,
            ),
            (
                "zinc_request_prefill_seconds",
                "vllm:request_prefill_time_seconds",
                "A request's time for its prompt.",
                &self.prefill,
            ),
            (
                "zinc_request_decode_seconds",
                "vllm:request_decode_time_seconds",
                "A request's time for its answer.",
                &self.decode,
            ),
            (
                "zinc_request_prompt_tokens",
                "vllm:request_prompt_tokens",
                "Tokens of a request's prompt.",
                &self.prompt_tokens,
            ),
            (
                "zinc_request_generation_tokens",
                "vllm:request_generation_tokens",
                "Tokens of a request's answers.",
                &self.generation_tokens,
            ),
        ]
    }
}

type Row = (&'static str, &'static str, &'static str, fn(&Stats) -> f64);

/// What engines tell, by name.
const ENGINE: [Row; 31] = [
    ("zinc_requests_running", "gauge", "Sequences that run.", |s| f64::from(s.n_running)),
    ("vllm:num_requests_running", "gauge", "Sequences that run.", |s| f64::from(s.n_running)),
    ("zinc_requests_waiting", "gauge", "Requests that wait.", |s| f64::from(s.n_waiting)),
    ("vllm:num_requests_waiting", "gauge", "Requests that wait.", |s| f64::from(s.n_waiting)),
    ("zinc_kv_pages", "gauge", "Pages of the key/value cache.", |s| f64::from(s.n_pages)),
    ("zinc_kv_pages_held", "gauge", "Pages that sequences hold.", |s| f64::from(s.n_pages_held)),
    ("zinc_kv_pages_cached", "gauge", "Pages that nobody holds, kept for reuse.", |s| f64::from(s.n_pages_cached)),
    ("zinc_kv_window_pages", "gauge", "Pages of layers that see a window.", |s| f64::from(s.n_window_pages)),
    ("zinc_kv_window_pages_held", "gauge", "Those that sequences hold.", |s| f64::from(s.n_window_pages_held)),
    ("vllm:kv_cache_usage_perc", "gauge", "Share of pages that sequences hold, 0 to 1.", kv_usage),
    ("vllm:gpu_cache_usage_perc", "gauge", "The same under its older name.", kv_usage),
    ("zinc_snapshots", "gauge", "Places for recurrent states.", |s| f64::from(s.n_snapshots)),
    ("zinc_snapshots_used", "gauge", "Recurrent states that are kept.", |s| f64::from(s.n_snapshots_used)),
    ("zinc_prefix_query_tokens_total", "counter", "Prompt tokens looked up for reuse.", |s| {
        s.prefix_query_tokens as f64
    }),
    ("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up for reuse.", |s| {
        s.prefix_query_tokens as f64
    }),
    ("vllm:gpu_prefix_cache_queries_total", "counter", "The same under its older name.", |s| {
        s.prefix_query_tokens as f64
    }),
    ("zinc_prefix_hit_tokens_total", "counter", "Prompt tokens found for reuse.", |s| s.prefix_hit_tokens as f64),
    ("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found for reuse.", |s| s.prefix_hit_tokens as f64),
    ("vllm:gpu_prefix_cache_hits_total", "counter", "The same under its older name.", |s| s.prefix_hit_tokens as f64),
    ("zinc_preemptions_total", "counter", "Sequences set back for want of pages.", |s| s.n_preemptions as f64),
    ("vllm:num_preemptions_total", "counter", "Sequences set back for want of pages.", |s| s.n_preemptions as f64),
    ("zinc_prompt_tokens_total", "counter", "Prompt tokens computed.", |s| s.prefill_tokens as f64),
    ("vllm:prompt_tokens_total", "counter", "Prompt tokens computed.", |s| s.prefill_tokens as f64),
    ("zinc_generation_tokens_total", "counter", "Tokens chosen.", |s| s.generated_tokens as f64),
    ("vllm:generation_tokens_total", "counter", "Tokens chosen.", |s| s.generated_tokens as f64),
    ("zinc_engine_steps_total", "counter", "Steps of the engine.", |s| s.n_steps as f64),
    ("zinc_rotated_steps_total", "counter", "Those that left sequences out for speed.", |s| s.n_rotated_steps as f64),
    ("zinc_requests_done_total", "counter", "Requests that came to their end.", |s| s.n_done as f64),
    ("zinc_requests_cancelled_total", "counter", "Requests that were cancelled.", |s| s.n_cancelled as f64),
    ("zinc_requests_failed_total", "counter", "Requests that failed.", |s| s.n_failed as f64),
    ("zinc_requests_refused_total", "counter", "Requests that were refused.", |s| s.n_refused as f64),
];

fn kv_usage(stats: &Stats) -> f64 {
    if stats.n_pages == 0 { 0.0 } else { f64::from(stats.n_pages_held) / f64::from(stats.n_pages) }
}

fn label(model: &Model) -> String {
    format!("{{model_name=\"{}\"}}", escaped(&model.id))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The text being written.
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str, rows: impl IntoIterator<Item = (String, f64)>) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in rows {
            self.row(name, &labels, value);
        }
    }

    fn histogram(&mut self, name: &str, help: &str, model: &str, histogram: &Histogram) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (bound, count) in histogram.cumulative() {
            let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
            self.row(&format!("{name}_bucket"), &format!("{{model_name=\"{model}\",le=\"{bound}\"}}"), count);
        }
        let labels = format!("{{model_name=\"{model}\"}}");
        self.row(&format!("{name}_sum"), &labels, histogram.sum());
        self.row(&format!("{name}_count"), &labels, histogram.count());
    }

    fn row(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}
