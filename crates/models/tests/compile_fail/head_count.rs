//! One query head fewer: the key and value heads no longer divide them.

use zinc_models::check::check;
use zinc_models::hparams::Hparams;
use zinc_models::published::qwen3::QWEN3_0_6B;
use zinc_models::qwen3::Qwen3;

const WRONG: Qwen3 = Qwen3 { hp: Hparams { n_heads: 15, ..QWEN3_0_6B.hp }, ..QWEN3_0_6B };

const _: () = check("Qwen3-0.6B", &WRONG.declare(), 596_049_920);

fn main() {}
