//! The sampler against numpy (`fixtures/sampler`), and what a fixture cannot say.

use serde::Deserialize;

use super::{Distribution, NonFinite, Random, Sampler, Sampling, Scratch, exp};

#[derive(Deserialize)]
struct Fixture {
    history: Vec<u32>,
    rows: std::collections::BTreeMap<String, Vec<f32>>,
    cases: Vec<Case>,
    logprobs: std::collections::BTreeMap<String, Logprobs>,
    uniforms_times_2_53: Vec<Uniforms>,
}

#[derive(Deserialize)]
struct Case {
    row: String,
    params: Params,
    n_kept: usize,
    id_sum: u64,
    kept: Option<Vec<u32>>,
    probabilities: Option<Vec<f64>>,
    entropy: f64,
    seed: u64,
    draws: Vec<Option<u32>>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct Params {
    temperature: f32,
    top_k: u32,
    top_p: Option<f32>,
    min_p: f32,
    repetition_penalty: Option<f32>,
    presence_penalty: f32,
    frequency_penalty: f32,
    penalty_window: u32,
    logit_bias: Vec<(u32, Option<f32>)>,
}

#[derive(Deserialize)]
struct Logprobs {
    top: Vec<(u32, f64)>,
    of_id_7: f64,
}

#[derive(Deserialize)]
struct Uniforms {
    seed: u64,
    values: Vec<u64>,
}

fn fixture() -> Fixture {
    serde_json::from_str(include_str!("../../../../fixtures/sampler/cases.json")).unwrap()
}

impl Params {
    fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p.unwrap_or(1.0),
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            penalty_window: self.penalty_window,
            logit_bias: self.logit_bias.iter().map(|&(id, bias)| (id, bias.unwrap_or(f32::NEG_INFINITY))).collect(),
        }
    }
}

fn sampler(sampling: Sampling, seed: u64) -> Sampler {
    Sampler::new(sampling, seed, &[], 1 << 20).unwrap()
}

/// Kept ids of nonzero weight and their probabilities, after everything but the draw.
fn distribution(sampler: &Sampler, logits: &[f32]) -> Vec<(u32, f64)> {
    let mut scratch = Scratch::default();
    let mut logits = logits.to_vec();
    sampler.adjust(&mut logits, &mut scratch.adjusted);
    let max = super::logprobs::largest(&logits).unwrap();
    let filtered = sampler.weigh(&logits, max, &mut scratch);
    let all: Vec<u32> = (0..u32::try_from(logits.len()).unwrap()).collect();
    let ids = if filtered { &scratch.kept } else { &all };
    assert_eq!(ids.len(), scratch.weights.len());
    let total = exp::total(&scratch.weights);
    let pairs = ids.iter().zip(&scratch.weights).map(|(&id, &weight)| (id, f64::from(weight) / total));
    pairs.filter(|&(_, p)| p > 0.0).collect()
}

#[test]
fn kept_sets_and_probabilities_are_those_of_numpy() {
    let fixture = fixture();
    for case in &fixture.cases {
        let what = format!("{} {:?}", case.row, case.params);
        let sampler = Sampler::new(case.params.sampling(), case.seed, &fixture.history, 1 << 20).unwrap();
        let got = distribution(&sampler, &fixture.rows[&case.row]);
        assert_eq!(got.len(), case.n_kept, "{what}");
        assert_eq!(got.iter().map(|&(id, _)| u64::from(id)).sum::<u64>(), case.id_sum, "{what}");
        let entropy: f64 = -got.iter().map(|&(_, p)| p * p.ln()).sum::<f64>();
        assert!((entropy - case.entropy).abs() < 1e-6 + 1e-6 * case.entropy, "{what}: entropy {entropy}");
        let (Some(kept), Some(probabilities)) = (&case.kept, &case.probabilities) else { continue };
        for ((id, p), (expected_id, expected_p)) in got.iter().zip(kept.iter().zip(probabilities)) {
            assert_eq!(id, expected_id, "{what}");
            assert!(
                (p - expected_p).abs() < 2e-6 * expected_p.max(1e-3),
                "{what}: token {id} has {p}, expected {expected_p}"
            );
        }
    }
    assert!(fixture.cases.len() > 80);
}

#[test]
fn draws_are_those_of_numpy_with_its_own_generator() {
    let fixture = fixture();
    let mut scratch = Scratch::default();
    let mut n_compared = 0;
    for case in &fixture.cases {
        let sampler = Sampler::new(case.params.sampling(), case.seed, &fixture.history, 1 << 20).unwrap();
        for (index, draw) in (0u32..).zip(&case.draws) {
            let mut logits = fixture.rows[&case.row].clone();
            let chosen = sampler.choose(&mut logits, index, &mut scratch).unwrap();
            assert_eq!(logits, fixture.rows[&case.row], "the row comes back as it was");
            if let Some(expected) = draw {
                assert_eq!(chosen, *expected, "{} {:?}, draw {index}", case.row, case.params);
                n_compared += 1;
            }
        }
    }
    assert!(n_compared > 900, "{n_compared}");
}

#[test]
fn uniforms_are_those_of_numpy() {
    for Uniforms { seed, values } in fixture().uniforms_times_2_53 {
        for (index, expected) in (0u64..).zip(values) {
            assert_eq!(
                Random::new(seed).uniform(index) * (1u64 << 53) as f64,
                expected as f64,
                "seed {seed}, index {index}"
            );
        }
    }
}

#[test]
fn logprobs_are_those_of_numpy() {
    let fixture = fixture();
    for (row, expected) in &fixture.logprobs {
        let distribution = Distribution::new(&fixture.rows[row]).unwrap();
        assert!((f64::from(distribution.logprob(7)) - expected.of_id_7).abs() < 2e-6 * expected.of_id_7.abs(), "{row}");
        let top = distribution.top(expected.top.len());
        for (got, (id, logprob)) in top.iter().zip(&expected.top) {
            assert_eq!(got.id, *id, "{row}");
            assert!(
                (f64::from(got.logprob) - logprob).abs() < 2e-6 + 1e-6 * logprob.abs(),
                "{row}: {} {logprob}",
                got.logprob
            );
        }
    }
}

/// Chi-square of 40,000 draws from ten candidates: below 27.88, the 0.999 quantile at nine degrees
/// of freedom, for a good sampler; one wrong by two per cent of the mass comes out above 30.
#[test]
fn frequencies_follow_the_probabilities() {
    let fixture = fixture();
    let sampling = Sampling { temperature: 1.5, top_k: 10, ..Sampling::greedy() };
    let sampler = sampler(sampling, 20_260_101);
    let mut logits = fixture.rows["wide"].clone();
    let expected = distribution(&sampler, &logits);
    assert_eq!(expected.len(), 10);
    let n_draws = 40_000u32;
    let mut counts = std::collections::BTreeMap::<u32, u32>::new();
    let mut scratch = Scratch::default();
    for index in 0..n_draws {
        *counts.entry(sampler.choose(&mut logits, index, &mut scratch).unwrap()).or_default() += 1;
    }
    let chi_square: f64 = expected
        .iter()
        .map(|(id, p)| {
            let expected = p * f64::from(n_draws);
            (f64::from(counts[id]) - expected).powi(2) / expected
        })
        .sum();
    assert_eq!(counts.values().sum::<u32>(), n_draws);
    assert!(chi_square < 27.88, "chi-square {chi_square}");
}

#[test]
fn seeds_differ_and_a_seed_repeats() {
    let row = &fixture().rows["flat"];
    let answer = |seed| -> Vec<u32> {
        let sampler = sampler(Sampling { temperature: 1.0, ..Sampling::greedy() }, seed);
        let mut scratch = Scratch::default();
        (0..20).map(|index| sampler.choose(&mut row.clone(), index, &mut scratch).unwrap()).collect()
    };
    assert_eq!(answer(1), answer(1));
    assert_ne!(answer(1), answer(2));
    let distinct: std::collections::BTreeSet<u32> = answer(1).into_iter().collect();
    assert!(distinct.len() > 15, "twenty draws from 3,000 equal tokens hardly repeat: {distinct:?}");
}

#[test]
fn greedy_takes_the_lowest_id_among_equals_after_bias_and_penalties() {
    let mut scratch = Scratch::default();
    let mut choose = |sampling: Sampling, history: &[u32], logits: &[f32]| {
        Sampler::new(sampling, 0, history, 8).unwrap().choose(&mut logits.to_vec(), 0, &mut scratch).unwrap()
    };
    let logits = [1.0, 3.0, 3.0, 2.0];
    assert_eq!(choose(Sampling::greedy(), &[], &logits), 1);
    assert_eq!(choose(Sampling { logit_bias: vec![(3, 1.5)], ..Sampling::greedy() }, &[], &logits), 3);
    let penalised = Sampling { presence_penalty: 2.5, penalty_window: 8, ..Sampling::greedy() };
    assert_eq!(choose(penalised.clone(), &[1], &logits), 2);
    assert_eq!(choose(penalised, &[1, 2], &logits), 3);
    assert_eq!(choose(Sampling::greedy(), &[1, 2], &[-0.0, 0.0]), 0, "zeros are equal");
}

#[test]
fn plain_greedy_is_recognised() {
    let is_plain = |change: fn(&mut Sampling)| {
        let mut sampling = Sampling::greedy();
        change(&mut sampling);
        sampler(sampling, 0).is_plain_greedy()
    };
    assert!(is_plain(|_| {}));
    assert!(is_plain(|s| s.top_k = 40), "filters do not change which one is largest");
    assert!(!is_plain(|s| s.temperature = 0.1));
    assert!(!is_plain(|s| s.logit_bias = vec![(0, 1.0)]));
    assert!(!is_plain(|s| (s.frequency_penalty, s.penalty_window) = (0.1, 8)));
}

#[test]
fn a_broken_row_is_an_error_and_comes_back_as_it_was() {
    let mut scratch = Scratch::default();
    let sampling = Sampling { temperature: 1.0, logit_bias: vec![(0, -1.0)], ..Sampling::greedy() };
    let sampler = sampler(sampling, 0);
    let mut logits = [5.0, f32::NAN];
    assert!(matches!(sampler.choose(&mut logits, 0, &mut scratch), Err(NonFinite::Logit { id: 1, .. })));
    assert_eq!(logits[0], 5.0);
    assert!(matches!(sampler.choose(&mut [0.0, f32::INFINITY], 0, &mut scratch), Err(NonFinite::Logit { id: 1, .. })));
    let masked = &mut [f32::NEG_INFINITY; 3];
    assert_eq!(sampler.choose(masked, 0, &mut scratch), Err(NonFinite::AllMasked));
}

#[test]
fn extreme_parameters_still_choose() {
    let row = fixture().rows["wide"].clone();
    let best = (0..1000u32).max_by(|&a, &b| row[a as usize].total_cmp(&row[b as usize])).unwrap();
    let mut scratch = Scratch::default();
    let mut choose = |sampling: Sampling| sampler(sampling, 3).choose(&mut row.clone(), 0, &mut scratch).unwrap();
    assert_eq!(choose(Sampling { temperature: 1e-45, ..Sampling::greedy() }), best);
    assert_eq!(choose(Sampling { temperature: 1.0, top_p: 1e-30, ..Sampling::greedy() }), best);
    assert_eq!(choose(Sampling { temperature: 1.0, min_p: 1.0, ..Sampling::greedy() }), best);
    assert!(choose(Sampling { temperature: f32::MAX, ..Sampling::greedy() }) < 1000);
    assert!(choose(Sampling { temperature: 1.0, top_p: 0.999_999_94, ..Sampling::greedy() }) < 1000);
    assert!(choose(Sampling { temperature: 1.0, top_k: u32::MAX, ..Sampling::greedy() }) < 1000);
}

#[test]
fn a_banned_token_is_never_drawn() {
    let mut logits = [0.0; 4];
    let sampling = Sampling { temperature: 1.0, logit_bias: vec![(2, f32::NEG_INFINITY)], ..Sampling::greedy() };
    let sampler = sampler(sampling, 11);
    let mut scratch = Scratch::default();
    let drawn: std::collections::BTreeSet<u32> =
        (0..200).map(|index| sampler.choose(&mut logits, index, &mut scratch).unwrap()).collect();
    assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [0, 1, 3]);
}
