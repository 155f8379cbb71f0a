//! A tiny random transformer, an engine around it, and a driver that collects answers.

use std::collections::BTreeMap;
use std::time::Duration;

use zinc_cpu::Cpu;
use zinc_engine::config::KvSize;
use zinc_engine::request::{Done, Event, FinishReason, Request, RequestId, Token};
use zinc_engine::scheduler::Load;
use zinc_engine::{Engine, EngineConfig, Error};
use zinc_gguf::{Bytes, DType, Gguf};
use zinc_graph::backend::{Backend, KvFormat, WeightData};
use zinc_graph::blueprint::Layer;
use zinc_graph::conformance::Seeded;
use zinc_graph::ops::{Activation, Attention, Rope, RopeMode};
use zinc_graph::reference::Reference;
use zinc_graph::section::{Builder, WeightClass};
use zinc_graph::shape::Shape;
use zinc_graph::{Blueprint, Graph};
use zinc_models::Model;

pub(crate) const N_VOCAB: u32 = 61;
const WIDTH: u32 = 32;
const N_HEADS: u32 = 4;
const N_KV_HEADS: u32 = 2;
const HEAD_DIM: u32 = 8;

/// Small limits: a context of 96 tokens, three sequences, steps of 16 tokens.
pub(crate) const CONFIG: EngineConfig = EngineConfig {
    context_tokens: 96,
    sequences_max: 3,
    step_tokens: 16,
    kv: KvSize::Contexts,
    kv_format: KvFormat::F32,
    queue_max: 8,
    snapshot_bytes: 0,
    snapshot_tokens: 32,
    decode_gap_max: Duration::from_secs(60),
};

/// Two layers of attention and feed-forward over a vocabulary of 61.
pub(crate) fn model() -> Model {
    let mut b = Builder::new("prologue");
    let table = b.model_matrix("token_embd", WIDTH, N_VOCAB);
    let x = b.embed(table, 4.0);
    b.output(x);
    let prologue = b.finish().unwrap();

    let mut b = Builder::new("epilogue");
    let x = b.input(Shape::tokens(WIDTH));
    let x = b.select_rows(x);
    let norm = b.model_vector("output_norm", WIDTH);
    let x = b.rms_norm(x, norm, 1e-5);
    let head = b.model_matrix("output", WIDTH, N_VOCAB);
    let logits = b.matmul(x, head);
    let greedy = b.argmax(logits);
    b.output(logits);
    b.output(greedy);
    let epilogue = b.finish().unwrap();

    let layers = vec![Layer { block: 0, kv_of: 0 }, Layer { block: 0, kv_of: 1 }];
    let graph = Blueprint { prologue, blocks: vec![block()], layers, epilogue }.unroll().unwrap();
    graph.validate().unwrap();
    Model {
        architecture: "tiny",
        name: None,
        n_vocab: N_VOCAB,
        context_train: 64,
        n_layers: 2,
        n_embd: WIDTH,
        logits: graph.outputs[0],
        greedy: graph.outputs[1],
        graph,
    }
}

fn block() -> zinc_graph::Section {
    let mut b = Builder::new("block");
    let x = b.input(Shape::tokens(WIDTH));
    let norm = b.vector("attn_norm", WIDTH);
    let h = b.rms_norm(x, norm, 1e-5);
    let rope = Rope {
        head_dim: HEAD_DIM,
        n_rot: HEAD_DIM,
        mode: RopeMode::HalfSplit,
        base: 100.0,
        position_scale: 1.0,
        yarn: None,
    };
    let (q, k, v) = (
        b.matrix("attn_q", WIDTH, N_HEADS * HEAD_DIM),
        b.matrix("attn_k", WIDTH, N_KV_HEADS * HEAD_DIM),
        b.matrix("attn_v", WIDTH, N_KV_HEADS * HEAD_DIM),
    );
    let (q, k, v) = (b.matmul(h, q), b.matmul(h, k), b.matmul(h, v));
    let (q, k) = (b.rope(q, rope), b.rope(k, rope));
    let cache = b.kv_cache(N_KV_HEADS, HEAD_DIM);
    b.kv_write(k, v, cache);
    let op = Attention {
        n_heads: N_HEADS,
        n_kv_heads: N_KV_HEADS,
        head_dim: HEAD_DIM,
        scale: 0.35,
        window: 0,
        softcap: 0.0,
    };
    let y = b.attention(q, cache, None, op);
    let out = b.matrix("attn_output", N_HEADS * HEAD_DIM, WIDTH);
    let y = b.matmul(y, out);
    let x = b.add(x, y);
    let norm = b.vector("ffn_norm", WIDTH);
    let h = b.rms_norm(x, norm, 1e-5);
    let (gate, up) = (b.matrix("ffn_gate", WIDTH, 48), b.matrix("ffn_up", WIDTH, 48));
    let (gate, up) = (b.matmul(h, gate), b.matmul(h, up));
    let h = b.glu(gate, up, Activation::Silu);
    let down = b.matrix("ffn_down", 48, WIDTH);
    let y = b.matmul(h, down);
    let x = b.add(x, y);
    b.output(x);
    b.finish().unwrap()
}

/// Seeded weights; norms are ones. Large enough that a token depends on all before it.
pub(crate) fn weights(graph: &Graph) -> Vec<WeightData> {
    weights_with(graph, |_, _| {})
}

/// Seeded weights, changed by `change(name, values)`.
pub(crate) fn weights_with(graph: &Graph, change: impl Fn(&str, &mut [f32])) -> Vec<WeightData> {
    let mut random = Seeded(7);
    let mut weight = |w: &zinc_graph::graph::GraphWeight| {
        let n: u32 = w.shape.iter().product();
        let mut values: Vec<f32> = match w.class {
            WeightClass::Plain => vec![1.0; n as usize],
            WeightClass::Matrix => (0..n).map(|_| random.normal() * 0.35).collect(),
        };
        change(&w.name, &mut values);
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        WeightData { dtype: DType::F32, bytes: Bytes::from(bytes) }
    };
    graph.weights.iter().map(&mut weight).collect()
}

pub(crate) fn engine(config: EngineConfig) -> Engine {
    engine_on(Box::new(Reference::new()), config)
}

/// An engine on the model of a file, on one thread.
pub(crate) fn engine_of_file(file: &Gguf, config: EngineConfig) -> Engine {
    let model = Model::from_gguf(file).unwrap();
    let weights = model.weights(file).unwrap();
    Engine::new(Box::new(Cpu::new(1).unwrap()), model, weights, config).unwrap()
}

pub(crate) fn engine_on(backend: Box<dyn Backend>, config: EngineConfig) -> Engine {
    let model = model();
    let weights = weights(&model.graph);
    Engine::new(backend, model, weights, config).unwrap()
}

/// A prompt of `n` tokens, different for each `which`.
pub(crate) fn prompt(which: u64, n: u32) -> Vec<u32> {
    prompt_below(N_VOCAB, which, n)
}

/// A prompt of `n` tokens of a vocabulary of `n_vocab`.
pub(crate) fn prompt_below(n_vocab: u32, which: u64, n: u32) -> Vec<u32> {
    let mut random = Seeded(which.wrapping_mul(977));
    (0..n).map(|_| random.below(n_vocab)).collect()
}

/// A greedy request without stop ids.
pub(crate) fn request(prompt: Vec<u32>, max_tokens: u32) -> Request {
    Request::greedy(prompt, max_tokens)
}

/// Everything that happened to one request.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// How many were before it, each time that it was told.
    pub(crate) queue: Vec<u32>,
    pub(crate) prefills: Vec<(u32, u32)>,
    pub(crate) tokens: Vec<Token>,
    /// Choices in the order in which they ended.
    pub(crate) choices: Vec<(u32, FinishReason)>,
    pub(crate) done: Option<Done>,
}

impl Answer {
    pub(crate) fn add(&mut self, event: Event) {
        assert!(self.done.is_none(), "nothing comes after Done, but {event:?} did");
        match event {
            Event::Queued { ahead } => {
                assert!(self.prefills.is_empty(), "a request waits before it begins");
                self.queue.push(ahead);
            }
            Event::Prefill { computed, cached, total } => {
                assert!(self.tokens.is_empty() && cached < computed && computed <= total);
                self.prefills.push((computed, total));
            }
            Event::Token(token) => {
                assert!(self.choices.iter().all(|(choice, _)| *choice != token.choice), "a choice ends once");
                self.tokens.push(token);
            }
            Event::ChoiceDone { choice, reason } => self.choices.push((choice, reason)),
            Event::Done(done) => self.done = Some(done),
        }
    }

    /// The ids of one of several choices.
    pub(crate) fn of_choice(&self, choice: u32) -> Vec<u32> {
        self.tokens.iter().filter(|t| t.choice == choice).map(|t| t.id).collect()
    }

    pub(crate) fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|t| t.id).collect()
    }

    pub(crate) fn done(&self) -> &Done {
        self.done.as_ref().expect("the request has ended")
    }

    pub(crate) fn error(&self) -> &Error {
        match &self.done().reason {
            FinishReason::Error(error) => error,
            other => panic!("ended with {other:?}, not with an error"),
        }
    }
}

/// Answers by request, as steps bring them.
#[derive(Debug, Default)]
pub(crate) struct Answers(pub(crate) BTreeMap<RequestId, Answer>);

impl Answers {
    pub(crate) fn add(&mut self, events: Vec<(RequestId, Event)>) {
        for (id, event) in events {
            self.0.entry(id).or_default().add(event);
        }
    }

    pub(crate) fn of(&self, id: RequestId) -> &Answer {
        &self.0[&id]
    }
}

/// The load without what is only kept for later.
pub(crate) fn settled(engine: &Engine) -> Load {
    Load { n_kept_pages: 0, n_snapshots_used: 0, ..engine.load() }
}

/// Steps until the engine is idle.
pub(crate) fn drain(engine: &mut Engine) -> Answers {
    let mut answers = Answers::default();
    drain_into(engine, &mut answers);
    answers
}

/// Steps until the engine is idle. A step may bring nothing while an interrupted sequence is computed once more, but
/// not for long.
pub(crate) fn drain_into(engine: &mut Engine, answers: &mut Answers) {
    let mut n_quiet = 0;
    while !engine.is_idle() {
        let events = engine.step().unwrap();
        n_quiet = if events.is_empty() { n_quiet + 1 } else { 0 };
        assert!(n_quiet < 100, "requests wait and nothing happens: {:?}", engine.load());
        answers.add(events);
    }
}

/// The answer of a request that has a fresh engine to itself.
pub(crate) fn alone(config: EngineConfig, request: Request) -> Answer {
    let mut engine = engine(config);
    let id = engine.submit(request).unwrap();
    drain(&mut engine).0.remove(&id).unwrap()
}
