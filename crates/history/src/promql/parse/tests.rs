//! Our part of the language is Prometheus' language: what we read, `promql-parser` reads the same.
//!
//! Method: random expressions of our part are parsed by both, and both trees are written
//! out with every parenthesis. Texts with a character missing may be refused by both, or
//! by us alone; what we take, the other must take.

use promql_parser::label::MatchOp;
use promql_parser::parser::{self, Expr, LabelModifier, Offset, VectorSelector};
use proptest::prelude::*;

use super::*;

/// The tree of an expression of ours.
fn ours(expression: &Expression) -> String {
    match expression {
        Expression::Number(number) => number.to_string(),
        Expression::Negative(inner) => negative(&ours(inner)),
        Expression::Counter(selector) => our_selector(selector),
        Expression::Window { function, selector, length_ms } => {
            let name = if *function == Function::Increase { "increase" } else { "rate" };
            format!("{name}({} over {length_ms})", our_selector(selector))
        }
        Expression::Aggregate { aggregate, over, grouping } => {
            let (name, rows) = match aggregate {
                Aggregate::Sum => ("sum", None),
                Aggregate::Average => ("avg", None),
                Aggregate::Min => ("min", None),
                Aggregate::Max => ("max", None),
                Aggregate::Count => ("count", None),
                Aggregate::Top(rows) => ("topk", Some(rows)),
                Aggregate::Bottom(rows) => ("bottomk", Some(rows)),
            };
            let rows = rows.map(|rows| format!("{rows}, ")).unwrap_or_default();
            let grouping = match grouping {
                Grouping::By(labels) => format!("by {labels:?}"),
                Grouping::Without(labels) => format!("without {labels:?}"),
            };
            format!("{name} {grouping} ({rows}{})", ours(over))
        }
        Expression::Binary { operator, left, right, is_bool } => {
            let signs = ["==", "!=", ">", "<", ">=", "<=", "+", "-", "*", "/"];
            let sign =
                signs.into_iter().find(|sign| Operator::of_sign(sign).unwrap().0 == *operator).unwrap();
            let is_bool = if *is_bool { " bool" } else { "" };
            format!("({} {sign}{is_bool} {})", ours(left), ours(right))
        }
    }
}

fn our_selector(selector: &Selector) -> String {
    let mut matchers: Vec<String> = selector.matchers.iter().map(Matcher::text).collect();
    matchers.sort();
    format!("{{{}}} offset {}", matchers.join(","), selector.offset_ms)
}

/// The tree of an expression of theirs.
fn theirs(expression: &Expr) -> String {
    match expression {
        Expr::NumberLiteral(number) => number.val.to_string(),
        Expr::Paren(inner) => theirs(&inner.expr),
        Expr::Unary(inner) => negative(&theirs(&inner.expr)),
        Expr::VectorSelector(selector) => their_selector(selector),
        Expr::Call(call) => {
            let name = if call.func.name == "increase" { "increase" } else { "rate" };
            match call.args.args.first().map(AsRef::as_ref) {
                Some(Expr::MatrixSelector(window)) => {
                    format!("{name}({} over {})", their_selector(&window.vs), window.range.as_millis())
                }
                other => panic!("{other:?}"),
            }
        }
        Expr::Aggregate(aggregate) => {
            let rows = aggregate.param.as_ref().map(|rows| format!("{}, ", theirs(rows)));
            let grouping = match &aggregate.modifier {
                None => "by []".to_owned(),
                Some(LabelModifier::Include(labels)) => format!("by {:?}", labels.labels),
                Some(LabelModifier::Exclude(labels)) => format!("without {:?}", labels.labels),
            };
            format!("{} {grouping} ({}{})", aggregate.op, rows.unwrap_or_default(), theirs(&aggregate.expr))
        }
        Expr::Binary(binary) => {
            let is_bool = binary.modifier.as_ref().is_some_and(|modifier| modifier.return_bool);
            let is_bool = if is_bool { " bool" } else { "" };
            format!("({} {}{is_bool} {})", theirs(&binary.lhs), binary.op, theirs(&binary.rhs))
        }
        Expr::Subquery(_) | Expr::StringLiteral(_) | Expr::MatrixSelector(_) | Expr::Extension(_) => {
            panic!("{expression:?}")
        }
    }
}

fn their_selector(selector: &VectorSelector) -> String {
    let sign = |op: &MatchOp| match op {
        MatchOp::Equal => "=",
        MatchOp::NotEqual => "!=",
        MatchOp::Re(_) => "=~",
        MatchOp::NotRe(_) => "!~",
    };
    let matchers = selector.matchers.matchers.iter();
    let mut matchers: Vec<String> =
        matchers.map(|one| format!("{}{}{:?}", one.name, sign(&one.op), one.value)).collect();
    matchers.extend(selector.name.as_ref().map(|name| format!("__name__={name:?}")));
    matchers.sort();
    let offset = match &selector.offset {
        None => 0,
        Some(Offset::Pos(offset)) => offset.as_millis(),
        Some(Offset::Neg(offset)) => panic!("{offset:?}"),
    };
    format!("{{{}}} offset {offset}", matchers.join(","))
}

/// A negative number is written as one, and a sign before anything else stays.
fn negative(inner: &str) -> String {
    match inner.strip_prefix('-').filter(|number| number.parse::<f64>().is_ok()) {
        Some(number) => number.to_owned(),
        None => format!("-{inner}"),
    }
}

fn selector_text() -> impl Strategy<Value = String> {
    let value =
        prop_oneof![Just("\"/a\""), Just("'b c'"), Just("\"\""), Just("\"x\\\"y\\n\""), Just("`a.+`")];
    let matcher = ("(route|rule|outcome|by)", "(=|!=|=~|!~)", value)
        .prop_map(|(label, sign, value)| format!("{label} {sign}{value}"));
    let matchers = prop::collection::vec(matcher, 0..3).prop_map(|all| format!("{{{}}}", all.join(", ")));
    let name = "(tollgate_requests_total|tollgate_decisions_total|up:x)";
    prop_oneof![
        name.prop_map(|name| name),
        (name, matchers).prop_map(|(name, matchers)| format!("{name}{matchers}")),
        Just("{route=\"/a\",}".to_owned()),
    ]
}

fn duration_text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["5m", "30s", "1h30m", "2d", "1w", "1y", "500ms"])
}

fn scalar_text() -> impl Strategy<Value = String> {
    let number = prop::sample::select(vec!["1", "0", "2.5", ".5", "1e3", "1.5E-2", "-7", "Inf"]);
    let sum = (number.clone(), "[-+*/]", number.clone())
        .prop_map(|(one, sign, other)| format!("({one} {sign} {other})"));
    prop_oneof![3 => number.prop_map(str::to_owned), 1 => sum]
}

fn vector_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        selector_text(),
        (selector_text(), duration_text())
            .prop_map(|(selector, offset)| format!("{selector} offset {offset}")),
        ("(rate|irate|increase)", selector_text(), duration_text())
            .prop_map(|(name, selector, window)| format!("{name}({selector}[{window}])")),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let aggregate = "(sum|avg|min|max|count)";
        let grouping = "(by|without|BY)( ?)\\((route|rule, key|)\\)";
        prop_oneof![
            (aggregate, inner.clone()).prop_map(|(name, over)| format!("{name}({over})")),
            (aggregate, grouping, inner.clone()).prop_map(|(name, by, over)| format!("{name} {by} ({over})")),
            (aggregate, grouping, inner.clone()).prop_map(|(name, by, over)| format!("{name}({over}) {by}")),
            ("(topk|bottomk)", 1..99_u8, inner.clone())
                .prop_map(|(name, rows, over)| format!("{name}({rows}, {over})")),
            (inner.clone(), "[-+*/]", inner.clone())
                .prop_map(|(one, sign, other)| format!("{one} {sign} {other}")),
            (inner.clone(), "(==|!=|>|<|>=|<=)( bool)?", scalar_text())
                .prop_map(|(one, sign, other)| format!("{one} {sign} {other}")),
            (scalar_text(), "[-+*/]", inner.clone())
                .prop_map(|(one, sign, other)| format!("{one}{sign}{other}")),
            inner.clone().prop_map(|inner| format!("( {inner} )")),
            inner.prop_map(|inner| format!("-{inner}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_we_read_is_what_prometheus_reads(text in vector_text()) {
        match (parse(&text), parser::parse(&text)) {
            (Ok(our), Ok(their)) => prop_assert_eq!(ours(&our), theirs(&their), "{}", text),
            (our, their) => prop_assert!(false, "{}: {:?} and {:?}", text, our.err(), their.err()),
        }
    }

    #[test]
    fn what_prometheus_refuses_we_refuse(text in vector_text(), at in any::<prop::sample::Index>()) {
        let mut chars: Vec<char> = text.chars().collect();
        chars.remove(at.index(chars.len()));
        let text: String = chars.into_iter().collect();
        if let (Ok(our), Err(error)) = (parse(&text), parser::parse(&text)) {
            // A value of the wrong type, or a selector without any condition, is refused later.
            let is_about_types = ["type", "scalar", "non-empty matcher", "unknown function"];
            let is_about_types = is_about_types.into_iter().any(|word| error.contains(word));
            prop_assert!(is_about_types, "{}: {} is refused: {}", text, ours(&our), error);
        }
    }
}
