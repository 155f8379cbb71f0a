//! Grammars over a vocabulary of bytes: what they allow, refuse and bound.

use super::masks::{Masks, Next};
use super::*;
use crate::request::{RequestId, SequenceId};

const END: u32 = 257;
const ID: SequenceId = SequenceId { request: RequestId(3), choice: 0 };

/// A token for each byte, one of three letters, and the end.
fn grammars() -> Grammars {
    let mut tokens: Vec<VocabularyToken> =
        (0..=255).map(|byte| VocabularyToken { bytes: vec![byte], is_control: false }).collect();
    tokens.push(VocabularyToken { bytes: b"abc".to_vec(), is_control: false });
    tokens.push(VocabularyToken { bytes: b"<end>".to_vec(), is_control: true });
    Grammars::new(Vocabulary { tokens, end_ids: vec![END] }, 260).unwrap()
}

/// Feeds a text byte by byte; the sets before each byte and after the last.
fn follow(constraint: &Constraint, text: &str) -> Vec<Vec<u32>> {
    let mut masks = Masks::start().unwrap();
    masks.begin(ID, grammars().compile(constraint).unwrap());
    let mut sets = Vec::new();
    for token in text.bytes().map(u32::from).map(Some).chain([None]) {
        match masks.next(ID).unwrap().unwrap() {
            Next::Tokens(set) => sets.push(set.to_list()),
            Next::Nothing => sets.push(Vec::new()),
        }
        if let Some(token) = token {
            masks.accept(ID, token);
        }
    }
    sets
}

#[test]
fn a_regular_expression_allows_what_can_still_match() {
    let ids = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
    let sets = follow(&Constraint::Regex("(abc|ax)y?".into()), "axy");
    assert_eq!(sets[0], [ids("a"), vec![256]].concat());
    assert_eq!(sets[1], ids("bx"));
    assert_eq!(sets[2], [ids("y"), vec![END]].concat(), "it may end here");
    assert!(sets[3].is_empty() || sets[3] == [END], "and has to end here: {:?}", sets[3]);
}

#[test]
fn a_schema_with_references_is_followed() {
    let schema = r##"{"type":"object","properties":{"n":{"$ref":"#/$defs/small"}},"required":["n"],
        "additionalProperties":false,"$defs":{"small":{"type":"integer","minimum":1,"maximum":3}}}"##;
    let sets = follow(&Constraint::JsonSchema(schema.into()), r#"{"n":"#);
    let digits: Vec<u32> = sets[5].iter().copied().filter(|&id| (48..58).contains(&id)).collect();
    assert_eq!(digits, [49, 50, 51]);
    assert!(!sets[5].contains(&END));
}

#[test]
fn a_grammar_in_lark_is_followed() {
    let sets = follow(&Constraint::Lark("start: \"a\" b+\nb: \"b\"\n".into()), "ab");
    assert_eq!(sets, [vec![97], vec![98], vec![98, END]]);
}

#[test]
fn what_is_no_grammar_is_refused_before_anything_runs() {
    let grammars = grammars();
    let bad = [
        Constraint::JsonSchema("{".into()),
        Constraint::JsonSchema(r#"{"type":"nonsense"}"#.into()),
        Constraint::JsonSchema("[".repeat(100_000)),
        Constraint::Regex("(".into()),
        Constraint::Lark("start: missing".into()),
        Constraint::Lark(String::new()),
    ];
    for constraint in bad {
        let Err(error) = grammars.compile(&constraint) else { panic!("{constraint:?} is taken") };
        assert!(
            matches!(&error, ConstraintError::Grammar { message } if message.len() <= MESSAGE_BYTES_MAX),
            "{error}"
        );
    }
    let long = Constraint::Regex("a".repeat(CONSTRAINT_BYTES_MAX + 1));
    assert!(matches!(grammars.compile(&long), Err(ConstraintError::TooLong { n_bytes: 262_145 })));
}

/// Such grammars are refused at once, or go wrong when they are followed; either way there is an end.
#[test]
fn what_would_take_for_ever_is_cut_short() {
    let nested = |n: usize| (0..n).fold("a".to_owned(), |inner, _| format!("({inner}){{50}}|[a-z]*{{30}}"));
    let hostile = [
        Constraint::Regex(format!("({}){{1000}}", "a{1000}".repeat(50))),
        Constraint::Regex(nested(12)),
        Constraint::Regex("(.*a.{900}){20}".into()),
        Constraint::Lark("start: a\na: b b b b\nb: c c c c | \"x\"\nc: a a a a | b b | \"\"\n".into()),
        Constraint::JsonSchema(r#"{"type":"string","minLength":100000000,"maxLength":200000000}"#.into()),
    ];
    let grammars = grammars();
    for constraint in hostile {
        let Ok(grammar) = grammars.compile(&constraint) else { continue };
        let mut masks = Masks::start().unwrap();
        masks.begin(ID, grammar);
        for _ in 0..20 {
            let Some(Ok(Next::Tokens(set))) = masks.next(ID) else { break };
            masks.accept(ID, set.to_list()[0]);
        }
    }
}

#[test]
fn a_vocabulary_of_another_model_is_refused() {
    let token = VocabularyToken { bytes: vec![1], is_control: false };
    for (n_tokens, end_ids) in [(11, vec![1]), (5, vec![5]), (5, vec![])] {
        let vocabulary = Vocabulary { tokens: vec![token.clone(); n_tokens], end_ids };
        assert!(matches!(Grammars::new(vocabulary, 10), Err(ConstraintError::Vocabulary { n_vocab: 10, .. })));
    }
}

#[test]
fn a_token_that_does_not_fit_is_an_error_and_others_go_on() {
    let mut masks = Masks::start().unwrap();
    let grammar = grammars().compile(&Constraint::Regex("ab".into())).unwrap();
    let other = SequenceId { choice: 1, ..ID };
    masks.begin(ID, grammar.clone());
    masks.begin(other, grammar);
    for (id, token) in [(ID, 120), (other, 97)] {
        assert!(matches!(masks.next(id), Some(Ok(Next::Tokens(_)))));
        masks.accept(id, token);
    }
    assert!(matches!(masks.next(ID), Some(Err(ConstraintError::Failed { .. }))));
    assert!(matches!(masks.next(other), Some(Ok(Next::Tokens(set))) if set.to_list() == [98]));
    masks.end(ID);
    assert!(masks.next(ID).is_none());
}
