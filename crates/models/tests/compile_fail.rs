//! A published model with one wrong number must stop the build with a sentence that says which.
//!
//! The expected messages lie beside the programs. `check` is `track_caller`, so that they hold no line of this crate.

#[test]
fn a_wrong_number_in_a_published_model_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
