//! One template, compiled: the renders of a conversation with and without marks, and what follows from comparing them.
//!
//! `super` has the reasons. Limits grow with the conversation, so that a long one is no different from a short one.

use super::marks::Marked;
use super::message::{Message, Shape};
use super::values::Marking;
use super::{Error, Limit, Limits, RenderInput, Rendered, SpecialTokens, Tracing, capabilities, environment, source};
use aho_corasick::{AhoCorasick, MatchKind};
use minijinja::Environment;
use minijinja::value::Value;
use serde_json::Value as Json;
use std::io;

/// The name of a template inside of its engine.
const NAME: &str = "chat";
/// The share of the work of a render that a probe may take.
const PROBE_SHARE: u64 = 20;

/// A compiled template.
#[derive(Debug)]
pub(super) struct Program {
    environment: Environment<'static>,
    special: SpecialTokens,
    limits: Limits,
    shape: Shape,
}

/// A conversation as JSON: the variables of a template.
struct Variables {
    messages: Vec<Json>,
    pairs: Vec<(String, Json)>,
    bytes: u64,
}

impl Program {
    /// Compiles `source` and finds out which messages it takes.
    pub(super) fn compile(source: &str, special: SpecialTokens, limits: Limits) -> Result<Program, Error> {
        if source.len() > limits.template_bytes_max {
            let limit = limits.template_bytes_max as u64;
            return Err(Error::Limit { line: None, what: Limit::TemplateBytes, limit });
        }
        let text = source::rewrite(source)?;
        let mut environment = environment::environment(&limits);
        environment.add_template_owned(NAME, text).map_err(|error| environment::error(&error, &limits))?;
        let mut program = Program { environment, special, limits, shape: Shape::STANDARD };
        program.shape = capabilities::shape(&program);
        Ok(program)
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Renders and tells whose text is whose.
    pub(super) fn render(&self, input: &RenderInput<'_>) -> Result<Rendered, Error> {
        let variables = Self::variables(input, self.shape)?;
        let text = self.run(input, &variables, Marking::Off, self.limits)?;
        let limits = Limits {
            work_max: self.limits.work_max.saturating_mul(2),
            output_bytes_max: self.limits.output_bytes_max.saturating_mul(2),
            ..self.limits
        };
        let traced = |marking, tracing| {
            let marked = self.run(input, &variables, marking, limits).ok()?;
            let (found, outside) = Marked::read_strictly(&marked)?;
            (found == text).then_some(Rendered { text: found, outside, tracing })
        };
        if let Some(rendered) = traced(Marking::Strings, Tracing::Strings) {
            return Ok(rendered);
        }
        let tokens = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&self.special.control);
        // Too many tokens for a matcher are as good as none that can be told apart.
        let tokens = tokens.map_err(|_| Error::Untraceable)?;
        traced(Marking::Tokens(&tokens), Tracing::ControlTokens).ok_or(Error::Untraceable)
    }

    /// Renders for [`capabilities`], which asks often and with little, about any shape.
    pub(super) fn probe(&self, input: &RenderInput<'_>, shape: Shape) -> Result<String, Error> {
        let limits = Limits { work_max: self.limits.work_max / PROBE_SHARE, ..self.limits };
        self.run(input, &Self::variables(input, shape)?, Marking::Off, limits)
    }

    fn variables(input: &RenderInput<'_>, shape: Shape) -> Result<Variables, Error> {
        let message = |(place, message): (usize, &Message)| message.to_json(place, shape);
        let messages = input.messages.iter().enumerate().map(message).collect::<Result<Vec<_>, _>>()?;
        let tools = if input.tools.is_empty() { Json::Null } else { input.tools.to_vec().into() };
        let mut pairs: Vec<_> = input.variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        pairs.push(("tools".to_owned(), tools));
        let bytes = messages.iter().chain(pairs.iter().map(|(_, value)| value)).map(n_bytes).sum();
        Ok(Variables { messages, pairs, bytes })
    }

    /// Renders once.
    fn run(
        &self,
        input: &RenderInput<'_>,
        variables: &Variables,
        marking: Marking<'_>,
        limits: Limits,
    ) -> Result<String, Error> {
        let mut context = vec![
            ("bos_token".to_owned(), Value::from(self.special.bos.as_str())),
            ("eos_token".to_owned(), Value::from(self.special.eos.as_str())),
            ("documents".to_owned(), Value::from(())),
            ("strftime_now".to_owned(), environment::strftime_now(input.now)),
        ];
        for (name, value) in &variables.pairs {
            context.push((name.clone(), marking.value(value)?));
        }
        context.push(("messages".to_owned(), marking.messages(&variables.messages)?));
        context.push(("add_generation_prompt".to_owned(), Value::from(input.add_generation_prompt)));
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(limits.work_max.saturating_add(variables.bytes)));
        let mut output = Output {
            bytes: Vec::new(),
            bytes_max: usize::try_from(limits.output_bytes_max.saturating_add(variables.bytes.saturating_mul(8)))
                .unwrap_or(usize::MAX),
        };
        let result = environment
            .get_template(NAME)
            .and_then(|template| template.render_captured_to(Value::from_pairs(context), &mut output).map(drop));
        result.map_err(|error| environment::error(&error, &limits))?;
        Ok(String::from_utf8(output.bytes).expect("the engine writes strings"))
    }
}

/// The text that a render writes, up to a bound.
struct Output {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.bytes_max - self.bytes.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// About the bytes that a value takes as text.
fn n_bytes(json: &Json) -> u64 {
    match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => 8,
        Json::String(text) => 8 + text.len() as u64,
        Json::Array(items) => 8 + items.iter().map(n_bytes).sum::<u64>(),
        Json::Object(fields) => {
            8 + fields.iter().map(|(key, value)| 8 + key.len() as u64 + n_bytes(value)).sum::<u64>()
        }
    }
}
