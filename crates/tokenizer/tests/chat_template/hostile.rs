//! Templates that loop, grow, nest and pry: each ends in its typed error, soon, with the process alive.

use crate::support::{Conversation, parse};
use std::time::{Duration, Instant};
use zinc_tokenizer::chat_template::{ChatTemplate, Error, Limit, Limits, SpecialTokens};

/// An assignment in a namespace, a hundred thousand times over.
fn grown(value: &str) -> String {
    format!(
        "{{% set n = namespace(x=[]) %}}{{% for i in range(100000) %}}{{% set n.x = {value} %}}{{% endfor %}}{{{{ n.x }}}}"
    )
}

/// Renders with a tenth of the standard work, so that the tests are soon done.
fn try_out(source: &str) -> Result<(), Error> {
    let limits = Limits { work_max: Limits::STANDARD.work_max / 10, ..Limits::STANDARD };
    let special = SpecialTokens { bos: String::new(), eos: String::new(), control: Vec::new() };
    let result =
        ChatTemplate::parse(source, special, limits).and_then(|template| Conversation::user("x").render(&template));
    result.map(drop)
}

/// Asserts the limit that a template hits.
fn check(source: &str, expected: Limit) {
    let result = try_out(source);
    let hit = matches!(result, Err(Error::Limit { what, .. }) if what == expected);
    assert!(hit, "{}: {result:?}", &source[..source.len().min(100)]);
}

#[test]
fn standard_limits_end_soon() {
    for source in [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}".to_owned(),
        "{% for i in range(100000) %}{{ messages|tojson|tojson|tojson|length }}{% endfor %}".to_owned(),
        "{{ range(100000)|join('x' * 100000) }}".to_owned(),
        grown("n.x|select"),
        grown("n.x + n.x + [1]"),
    ] {
        let begin = Instant::now();
        let result = parse(&source).and_then(|template| Conversation::user("x").render(&template));
        let time = begin.elapsed();
        assert!(matches!(result, Ok(_) | Err(Error::Limit { what: Limit::Work, .. })), "{source}: {result:?}");
        // Half a second on an idle machine; the bound leaves room for a busy one.
        assert!(time < Duration::from_secs(10), "{time:?} for {source}");
    }
}

#[test]
fn work_is_bounded() {
    for source in [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 10**8 }}",
        "{{ 'x' * 10**9 }}",
        "{{ '' ~ ([[1] * 10**6] * 10**6) }}",
        "{{ '%s'|format([1] * 10**8) }}",
        "{% for i in range(100000) %}{% for x in [[1] * 1000] %}{{ [x] == [[1] * 1000] }}{% endfor %}{% endfor %}",
        "{% set a = [[1] * 40000] %}{% set b = [[1] * 40000] %}{{ a == b }}{{ a == b }}{{ a in [b] }}{{ a < b }}",
        "{% set a = [[1] * 10000] %}{% for i in range(1000) %}{{ loop.changed([1] * 10000) }}{{ (loop.changed)(a) }}{% endfor %}",
        "{% set a = range(5000)|list %}{{ [a, a]|sort }}{{ [a, a]|unique|list }}{{ [a, a]|max }}{{ a|sort }}",
        "{{ [1] * 10**8 }}",
        "{{ ([1] * 10**8)|tojson }}",
        "{{ range(100000)|join('x' * 100000) }}",
        "{{ ('x' * 100000).join(['y'] * 100000) }}",
        "{{ ('x' * 100000).replace('x', 'y' * 100000) }}",
        "{{ ('x' * 100000)|replace('x', 'y' * 100000) }}",
        "{{ ('x' * 100000)|replace('', 'y' * 100000) }}",
        "{{ ('x,' * 1000000).split(',')|tojson(indent=64) }}",
        "{{ ('x\n' * 1000000)|indent(100000) }}",
        "{{ '%1000000000d'|format(1) }}",
        "{% set x %}{% for i in range(100000) %}{{ 'x' * 10000 }}{% endfor %}{% endset %}",
        "{% macro m() %}{% for i in range(100000) %}{{ 'x' * 10000 }}{% endfor %}{% endmacro %}{{ m()|length }}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{{ ''.strip() }}{% endfor %}{% endfor %}",
    ] {
        check(source, Limit::Work);
    }
    for value in
        ["n.x|string + n.x|string + 'xxxxxxxx'", "n.x ~ n.x ~ 'xxxxxxxx'", "n.x + n.x + [1]", "(n.x or [1]) * 2"]
    {
        check(&grown(value), Limit::Work);
    }
}

/// Values that are small to hold and huge to go through.
#[test]
fn values_that_share_their_parts_are_bounded() {
    for value in
        ["[n.x, n.x]", "{'a': n.x, 'b': n.x}", "(n.x, n.x)", "[n.x] * 10", "dict(a=n.x, b=n.x)", "[n.x, n.x]|list"]
    {
        check(&grown(value), Limit::Work);
    }
    let nested = |begin: &str, end: &str, inner: &str| {
        format!("{{% set x = [1] %}}{}{inner}{}", begin.repeat(60), end.repeat(60))
    };
    for inner in ["{{ x }}", "{{ '' ~ x }}", "{{ x|tojson }}", "{{ x == [x] }}", "{{ x|length }}"] {
        check(&nested("{% for x in [[x, x]] %}", "{% endfor %}", inner), Limit::Work);
        check(&nested("{% with x = x + x %}", "{% endwith %}", inner), Limit::Work);
    }
    check(
        "{% macro m(x, n) %}{% if n %}{{ m([x, x, x, x], n - 1) }}{% else %}{{ x }}{% endif %}{% endmacro %}{{ m(1, 20) }}",
        Limit::Work,
    );
}

#[test]
fn output_is_bounded() {
    let limits = Limits { output_bytes_max: 1000, ..Limits::STANDARD };
    let special = SpecialTokens { bos: String::new(), eos: String::new(), control: Vec::new() };
    let template = ChatTemplate::parse("{% for i in range(50) %}{{ 'x' * 100 }}{% endfor %}", special, limits).unwrap();
    let result = Conversation::user("x").render(&template);
    assert!(matches!(result, Err(Error::Limit { what: Limit::OutputBytes, limit: 1000, .. })), "{result:?}");
}

#[test]
fn calls_are_bounded() {
    for source in [
        "{% macro m(x) %}{{ m(x + 1) }}{% endmacro %}{{ m(0) }}",
        "{% macro a(x) %}{{ b(x) }}{% endmacro %}{% macro b(x) %}{{ a(x) }}{% endmacro %}{{ a(0) }}",
        "{% macro m(x) %}{{ m([x]) }}{% endmacro %}{{ m(0) }}",
        "{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}",
        "{% macro m() %}{{ caller }}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}",
    ] {
        check(source, Limit::Recursion);
    }
}

#[test]
fn values_that_grow_inwards_are_bounded() {
    for value in [
        "[n.x]",
        "(n.x,)",
        "{'a': n.x}",
        "[[n.x]]",
        "dict(a=n.x)",
        "(n.x or [1])|batch(1)",
        "[n.x]|list",
        "[n.x]|map('list')",
    ] {
        check(&grown(value), Limit::Nesting);
    }
    check(&"{% set x = [x] %}".repeat(300), Limit::Nesting);
    check(&format!("{}{{{{ x0 }}}}", "{% set x0, x1 = [x0], 1 %}".repeat(300)), Limit::Nesting);
    // Lazy sequences are made real on the way, so that these do not grow at all.
    for value in ["range(3)[0:]", "n.x[0:]", "n.x * 1", "n.x|reverse", "n.x|map('int')", "n.x|select"] {
        let often = grown(value).replace("100000", "10000");
        assert!(try_out(&often).is_ok(), "{value}");
    }
}

#[test]
fn only_data_is_kept() {
    for source in [
        "{% set n = namespace() %}{% set n.self = n %}{{ n }}",
        "{% set n = namespace() %}{% set n.self = [n] %}{{ n == n }}",
        "{% set n = namespace() %}{% set x = {'n': n} %}{{ x }}",
        "{% set n = namespace() %}{% set m = namespace(n=n) %}",
        "{% set n = namespace() %}{% set m = namespace({'n': n}) %}",
        "{% macro m() %}{{ n }}{% endmacro %}{% set n = namespace() %}{% set n.m = m %}",
        "{% set f = [range] %}",
        "{% set n = namespace() %}{% for i in [1] %}{% set n.l = loop %}{% endfor %}",
    ] {
        let result = try_out(source);
        assert!(matches!(result, Err(Error::Render { line: 1, .. })), "{source}: {result:?}");
    }
    assert!(try_out("{% for i in [1] %}{% set outer = loop %}{{ outer.index }}{% endfor %}").is_ok());
    assert!(
        try_out("{% macro m() %}{% endmacro %}{% set f = m %}{{ f() }}{% set n = namespace() %}{% set m = n %}")
            .is_ok()
    );
}

#[test]
fn the_engines_own_recursion_is_bounded() {
    for chain in ["+1", "|list", "[0:]", " is defined", "()", "**1", "~1", "*1", "|batch(1)", ".a", " or 1"] {
        check(&format!("{{{{ x{} }}}}", chain.repeat(20_000)), Limit::TagTokens);
    }
    for chain in ["not ", "-", "1 if 1 else ", "0 or "] {
        check(&format!("{{{{ {}1 }}}}", chain.repeat(20_000)), Limit::TagTokens);
    }
    check(&format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(20_000)), Limit::Branches);
    for (open, close) in [("(", ")"), ("[", "]"), ("{1:", "}")] {
        let result = try_out(&format!("{{{{ {}1{} }}}}", open.repeat(200), close.repeat(200)));
        assert!(matches!(result, Err(Error::Syntax { .. } | Error::Limit { .. })), "{result:?}");
    }
    for (open, close) in
        [("{% for x in y %}", "{% endfor %}"), ("{% if x %}", "{% endif %}"), ("{% with %}", "{% endwith %}")]
    {
        let result = try_out(&format!("{}{}", open.repeat(10_000), close.repeat(10_000)));
        assert!(matches!(result, Err(Error::Syntax { .. })), "{result:?}");
    }
    // As much as a tag may hold does no harm.
    for chain in ["+1", "|list", "[0:]", "|batch(1)"] {
        let tokens_each = if chain == "|batch(1)" { 5 } else { chain.len().min(4) };
        let result = try_out(&format!("{{{{ [1]{} }}}}", chain.repeat(480 / tokens_each)));
        assert!(matches!(result, Ok(()) | Err(Error::Render { .. })), "{chain}: {result:?}");
    }
}

#[test]
fn failures_name_their_line() {
    for (source, expected_line) in [
        ("\n\n{{ 1 / 0 }}", 3),
        ("{{ 1 % 0 }}", 1),
        ("{{ 1 // 0 }}", 1),
        ("\n{{ ''.__class__.__mro__ }}", 2),
        ("{{ ''.__class__() }}", 1),
        ("{{ messages.__init__.__globals__ }}", 1),
        ("{{ self.x }}\n{{ self.x.y }}", 1),
        ("{{ range(10**9) }}", 1),
        ("{{ strftime_now('%Q') }}", 1),
        ("{% for x in 5 %}{% endfor %}", 1),
        ("{{ messages|nosuch }}", 1),
        ("{{ 9 ** 9 ** 9 }}", 1),
    ] {
        let result = try_out(source);
        assert!(matches!(result, Err(Error::Render { line, .. }) if line == expected_line), "{source}: {result:?}");
    }
    for (source, expected_line) in
        [("\n{% if %}", 2), ("{% endfor %}", 1), ("a\n{{ 'x }}", 2), ("{% include 'x' %}", 1), ("{% extends x %}", 1)]
    {
        let result = try_out(source);
        assert!(matches!(result, Err(Error::Syntax { line, .. }) if line == expected_line), "{source}: {result:?}");
    }
    let result = try_out("\n{% set x = 1 %}{{ raise_exception('so not') }}");
    assert!(matches!(&result, Err(Error::Refused { line: 2, message }) if message == "so not"), "{result:?}");
    let message = result.unwrap_err().to_string();
    assert_eq!(message, "the model's chat template refuses the conversation: so not");
}

#[test]
fn a_template_has_a_largest_size() {
    let ten_megabytes = "{{ 1 }}\n".repeat(10 << 17);
    check(&ten_megabytes, Limit::TemplateBytes);
    let largest = Limits { template_bytes_max: 8, ..Limits::STANDARD };
    let special = SpecialTokens { bos: String::new(), eos: String::new(), control: Vec::new() };
    assert!(ChatTemplate::parse("12345678", special.clone(), largest).is_ok());
    assert!(ChatTemplate::parse("123456789", special, largest).is_err());
}

#[test]
fn a_large_conversation_is_no_attack() {
    let template = crate::support::family("qwen3_5");
    let text = "word <|im_end|> \n".repeat(200_000);
    let rendered = Conversation::user(&text).render(&template).unwrap();
    assert!(rendered.text().len() > text.len());
    let mut many = Conversation::user("Hi");
    for _ in 0..1000 {
        let again = many.messages[0].clone();
        many.messages.extend([zinc_tokenizer::chat_template::Message::text("assistant", "Yes."), again]);
    }
    assert!(many.render(&template).is_ok());
}
