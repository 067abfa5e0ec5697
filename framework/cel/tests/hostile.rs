//! Expressions designed to take time and memory end within their work limit, without a panic.

use std::fmt::Write as _;

use flotilla_cel::{Attribute, Device, Evaluation, Expression, MAX_COST, Patterns};
use flotilla_selectors::Generator;

/// Work limit of an allocation attempt, in units: `devices::work::MAX_WORK` of the framework.
const MAX_WORK: u64 = 100_000_000;
/// Error of an evaluation that exceeds the memory limit.
const TOO_LARGE: &str = "operation cancelled: actual cost limit exceeded";
const CASES: usize = 1_000;

fn device() -> Device {
    let attributes = [("u", Attribute::String("u0".into()))];
    Device::new("gpu.example.com", false, attributes, []).expect("a device")
}

fn evaluate(expression: &str, max_work: u64) -> Evaluation {
    let compiled = Expression::compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    compiled.evaluate(&device(), &mut Patterns::default(), MAX_COST, max_work)
}

/// `repeated` in `depth` nested lists of ten, so that the outermost one contains it 10^depth times.
fn nested(repeated: &str, depth: usize, then: &str) -> String {
    let mut made = String::new();
    let mut inner = repeated.to_owned();
    for level in 0..depth {
        write!(made, "cel.bind(x{level}, dyn([{}]), ", [inner.as_str(); 10].join(", ")).expect("a string");
        inner = format!("x{level}");
    }
    write!(made, "{}{}", then.replace('$', &inner), ")".repeat(depth)).expect("a string");
    made
}

#[test]
fn results_that_are_too_large_are_refused_before_they_are_made() {
    let long = format!("'{}'", "a".repeat(4_000));
    let numbers = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let cases = [
        format!("[{}].map(i, {long}.replace('a', {long})).size() > 0", numbers(150)),
        format!("[{}].map(i, {long}.replace('', {long})).size() > 0", numbers(150)),
        format!(
            "[{0}].all(i, [{0}].all(j, [{long} + {long}].join({long}).size() > 0 && \
             {long}.replace('a', {long}).split('a').join({long}).size() > 0))",
            numbers(100)
        ),
        // Each is sixteen times as long as the previous one.
        format!(
            "['a'].map(a, a.replace('a', {long})).map(b, b.replace('a', {long})).map(c, c.replace('a', {long})).size() > 0"
        ),
        nested(&long, 8, "'%s'.format([$]).size() > 0"),
        nested(&long, 8, "$.flatten(9).size() > 0"),
        "[1, 2].map(i, '%.65535e%.65535e'.format([1.0, 1.0])).map(a, a.replace(' ', a)).size() > 0".to_owned(),
        "lists.range(900000).map(i, 'abc').size() > 0".to_owned(),
    ];
    for case in &cases {
        let evaluation = evaluate(case, MAX_WORK);
        let ended =
            evaluation.is_exhausted || evaluation.verdict.as_ref().is_err_and(|error| error.to_string() == TOO_LARGE);
        assert!(ended, "{evaluation:?} of {}", &case[..case.len().min(200)]);
    }
}

#[test]
fn work_that_upstreams_cost_does_not_count_ends_at_the_limit() {
    const LIMIT: u64 = 4_000_000;
    let ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]";
    let cases = [
        format!(
            "{ten}.all(i, {ten}.all(j, !device.driver.matches('\\\\pL{{30}}|' + string(i) + string(j) + \
             device.attributes['gpu.example.com'].u)))"
        ),
        nested("1", 9, "$ == $"),
        nested("'a'", 9, "$ in [dyn($), dyn($)]"),
        nested("1", 9, "sets.equivalent([$, $], [$, $])"),
        format!("'{0}'.indexOf('{1}b') < 0", "a".repeat(20_000), "a".repeat(10_000)),
        format!("'{}'.findAll('.*[^a]|a').size() > 0", "a".repeat(5_000)),
        format!("isQuantity('{}')", "1".repeat(40_000)),
    ];
    for case in &cases {
        let evaluation = evaluate(case, LIMIT);
        assert!(evaluation.is_exhausted, "{evaluation:?} of {}", &case[..case.len().min(200)]);
        assert!(evaluation.cost < MAX_COST, "upstream's cost ends it as well: {evaluation:?}");
    }
}

#[test]
fn nested_comprehensions_are_counted() {
    let ten = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]";
    let rounds = format!("{ten}.all(a, {ten}.all(b, {ten}.all(c, {ten}.all(d, device.driver != 'zz'))))");
    let whole = evaluate(&rounds, MAX_WORK);
    assert_eq!(whole.verdict, Ok(true));
    assert!(whole.work > 500_000, "10,000 rounds take {} units", whole.work);
    let cut = evaluate(&rounds, whole.work - 1);
    assert!(cut.is_exhausted, "a unit less is too little: {cut:?}");
    assert_eq!(evaluate(&rounds, whole.work).work, whole.work, "the same work each time");
}

#[test]
fn a_pattern_is_compiled_once_for_all_that_share_patterns() {
    let expression = Expression::compile("device.driver.matches('^gpu' + '.*')").expect("an expression");
    let mut patterns = Patterns::default();
    let first = expression.evaluate(&device(), &mut patterns, MAX_COST, MAX_WORK);
    let second = expression.evaluate(&device(), &mut patterns, MAX_COST, MAX_WORK);
    assert_eq!((first.verdict, second.verdict), (Ok(true), Ok(true)));
    assert!(second.work * 5 < first.work, "{} and {}", first.work, second.work);
    let one_of_many = Expression::compile("[0, 1, 2, 3].all(i, device.driver.matches('p' + string(i)) || true)");
    let one_of_many = one_of_many.expect("an expression");
    for round in 0..1_000 {
        let name = format!("d{round}");
        let device = Device::new(&name, false, [], []).expect("a device");
        _ = one_of_many.evaluate(&device, &mut patterns, MAX_COST, MAX_WORK);
    }
    assert!(patterns.bytes() <= 1 << 20, "{} bytes", patterns.bytes());
}

#[test]
fn a_macro_does_not_double_without_end() {
    let chain = format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(120));
    let error = Expression::compile(&chain).expect_err("too large").to_string();
    assert!(error.contains("optMap() makes the expression larger than"), "{error}");
    let short = format!("optional.of(1){}.hasValue()", ".optMap(x, x)".repeat(8));
    assert_eq!(evaluate(&short, MAX_WORK).verdict, Ok(true));
}

#[test]
fn lists_with_nan_are_sorted_whatever_their_length() {
    for length in 1..400_usize {
        let number = |at: usize| {
            if (at * 7).is_multiple_of(5) { "0.0 / 0.0".to_owned() } else { format!("{}.0", at * 7_919 % 1_000) }
        };
        let list = (0..length).map(number).collect::<Vec<_>>().join(", ");
        for sorted in ["sort()", "sortBy(x, -x)"] {
            let evaluation = evaluate(&format!("[{list}].{sorted}.size() == {length}"), u64::MAX);
            assert_eq!(evaluation.verdict, Ok(true), "{length} by {sorted}");
        }
    }
}

#[test]
fn no_generated_expression_panics_or_takes_more_than_it_may() {
    let mut generator = Generator::new(33);
    let mut patterns = Patterns::default();
    for _ in 0..CASES {
        let case = generator.case();
        let Ok(expression) = Expression::compile(&case.expression) else { continue };
        let device = case.device.device().expect("a device");
        let whole = expression.evaluate(&device, &mut patterns, MAX_COST, MAX_WORK);
        for part in [1, whole.work / 2] {
            let cut = expression.evaluate(&device, &mut Patterns::default(), MAX_COST, part);
            assert!(cut.is_exhausted || cut.verdict == whole.verdict, "{}: {cut:?}", case.expression);
        }
    }
}
