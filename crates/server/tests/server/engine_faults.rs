//! What clients see when the engine refuses.

use serde_json::json;

use crate::client::post;
use crate::harness::{Served, Shelf, config, registry};

#[test]
fn numbers_beyond_the_engines_bounds_are_the_clients_fault() {
    let shelf = Shelf::default();
    shelf.tiny("tiny", "llama-a.F32.gguf", Some("smollm2"));
    let served = Served::start(config(), shelf, registry("tiny"));
    for body in [
        json!({"prompt": [0, 511, 512]}),
        json!({"prompt": "x", "logit_bias": {"4000000": 1}}),
        json!({"prompt": "x", "logprobs": 5000}),
    ] {
        let answer = post(served.address, "/v1/completions", &body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
    }
}
