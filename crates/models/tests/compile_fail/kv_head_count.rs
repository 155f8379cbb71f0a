//! Half the key and value heads: everything fits together, but it is not the published model.

use zinc_models::check::check;
use zinc_models::gemma3::Gemma3;
use zinc_models::hparams::Hparams;
use zinc_models::published::gemma3::GEMMA3_27B;

const WRONG: Gemma3 = Gemma3 { hp: Hparams { n_kv_heads: 8, ..GEMMA3_27B.hp }, ..GEMMA3_27B };

const _: () = check("Gemma 3 27B", &WRONG.declare(), 27_009_002_240);

fn main() {}
