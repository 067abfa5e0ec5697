//! Test cases in files: a name, the input, and the whole expected output.
//!
//! Each case begins with a line `=== name`; the name is a sentence. The body follows, without trailing blank lines. A test passes a
//! function that rewrites the body with the actual output. [`check`] compares both by line and reports every case that differs. `[..]` in
//! an expected line matches any text. `FLOTILLA_RECORD=1` writes the files and keeps lines with `[..]` that still match.
//!
//! Contains: text comparison. Does not depend on: the tested code.

pub mod console;
mod escape;

use std::{collections::BTreeSet, env, fs, path::Path};

/// Begins the line with the name of a case.
const NAME: &str = "=== ";
/// Separates the input from the answer.
const ANSWER: &str = "===>";
/// Matches any text within a line.
const ANY: &str = "[..]";

struct Case<'a> {
    name: &'a str,
    line: usize,
    body: &'a str,
}

fn parse<'a>(text: &'a str, file: &str) -> (&'a str, Vec<Case<'a>>) {
    let mut starts = Vec::new();
    let mut offset = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if let Some(name) = line.strip_prefix(NAME) {
            starts.push((offset, offset + line.len(), number + 1, name.trim_end()));
        }
        offset += line.len();
    }
    let ends = starts.iter().skip(1).map(|(start, ..)| *start).chain([text.len()]);
    let cases: Vec<Case<'_>> = starts
        .iter()
        .zip(ends)
        .map(|((_, start, line, name), end)| Case { name, line: *line, body: text[*start..end].trim_end_matches('\n') })
        .collect();
    assert!(!cases.is_empty(), "{file} holds no case");
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert!(names.len() == cases.len(), "two cases of {file} have the same name");
    (text[..starts[0].0].trim_end_matches('\n'), cases)
}

/// Whether the lines match; the expected one may contain `[..]`.
fn is_same(expected: &str, found: &str) -> bool {
    let Some((beginning, mut rest)) = expected.split_once(ANY) else { return expected == found };
    let Some(mut found) = found.strip_prefix(beginning) else { return false };
    while let Some((part, behind)) = rest.split_once(ANY) {
        let Some(at) = found.find(part) else { return false };
        found = &found[at + part.len()..];
        rest = behind;
    }
    found.ends_with(rest)
}

/// The first difference: line number in the body, expected and found line.
fn first_difference<'a>(expected: &'a str, found: &'a str) -> Option<(usize, &'a str, &'a str)> {
    const END: &str = "(the end)";
    let (mut expected, mut found) = (expected.split('\n'), found.split('\n'));
    let mut number = 0;
    loop {
        number += 1;
        match (expected.next(), found.next()) {
            (None, None) => return None,
            (Some(expected), Some(found)) if is_same(expected, found) => {}
            (expected, found) => return Some((number, expected.unwrap_or(END), found.unwrap_or(END))),
        }
    }
}

/// The found body, with expected lines that still match.
fn recorded(expected: &str, found: &str) -> String {
    let wild: Vec<&str> = expected.split('\n').filter(|line| line.contains(ANY)).collect();
    let line = |line| *wild.iter().find(|expected| is_same(expected, line)).unwrap_or(&line);
    found.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Runs every case of a file: `run` rewrites the body of a case with its output.
///
/// # Panics
///
/// Panics with the names of all cases that differ, unless recording.
pub fn check(path: impl AsRef<Path>, run: impl Fn(&str) -> String) {
    let path = path.as_ref();
    let file = path.display().to_string();
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let (head, cases) = parse(&text, &file);
    let (mut failures, mut written) = (Vec::new(), Vec::from([head.to_owned()]));
    for case in &cases {
        let found = run(case.body);
        let found = found.trim_end_matches('\n');
        if let Some((number, expected, other)) = first_difference(case.body, found) {
            let line = case.line + number;
            failures.push(format!("{file}:{line}: {}\n  expected: {expected}\n  found:    {other}", case.name));
        }
        written.push(format!("{NAME}{}\n{}", case.name, recorded(case.body, found)));
    }
    if env::var_os("FLOTILLA_RECORD").is_some_and(|value| value == "1") {
        let text = written.join("\n\n").trim_start().to_owned() + "\n";
        fs::write(path, text).unwrap_or_else(|error| panic!("{file}: {error}"));
        return;
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases differ; where that is right, record them with FLOTILLA_RECORD=1:\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n\n")
    );
}

fn given(body: &str) -> String {
    body.split_inclusive('\n').take_while(|line| line.trim_end() != ANSWER).collect()
}

/// Runs every case with a body of input, `===>` and answer.
///
/// `\u{7}` escapes an invisible character, and `\` at the end of the input removes the line break.
///
/// # Panics
///
/// As [`check`].
pub fn check_answers(path: impl AsRef<Path>, answer: impl Fn(&str) -> String) {
    check(path, |body| {
        let given = given(body);
        let found = escape::hide(&answer(&escape::show(&given)));
        format!("{given}{ANSWER}\n{found}")
    });
}

/// Names and inputs of the cases of [`check_answers`].
///
/// # Panics
///
/// Panics if the file has no cases.
pub fn texts(path: impl AsRef<Path>) -> Vec<(String, String)> {
    let file = path.as_ref().display().to_string();
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let (_, cases) = parse(&text, &file);
    cases.iter().map(|case| (case.name.to_owned(), escape::show(&given(case.body)))).collect()
}

/// Runs [`check_answers`] on every `.txt` file of a folder.
///
/// # Panics
///
/// As [`check`], and if there is no such file.
pub fn check_answers_in(folder: impl AsRef<Path>, answer: impl Fn(&str) -> String) {
    let folder = folder.as_ref();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    assert!(!files.is_empty(), "{} holds no file of cases", folder.display());
    files.iter().for_each(|file| check_answers(file, &answer));
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    const CASES: &str = "What it shows.\n\n=== two lines\na\nb\n===>\nab\n\n=== a bell\n\\u{7}\\\n===>\n\\u{7}[..]\n";

    fn checked(text: &str, answer: fn(&str) -> String) -> Result<(), String> {
        let path = env::temp_dir().join(format!("flotilla-cases-{}-{}.txt", std::process::id(), text.len()));
        fs::write(&path, text).expect("writable");
        let result = catch_unwind(|| check_answers(&path, answer));
        fs::remove_file(&path).expect("it is there");
        result.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
    }

    #[test]
    fn answers_that_are_as_expected_pass() {
        assert_eq!(checked(CASES, |given| given.replace('\n', "") + "\n"), Ok(()));
    }

    #[test]
    fn every_case_that_differs_is_named_with_the_line_and_both_texts() {
        let failure = checked(&format!("{CASES}\n"), |given| given.replace('\n', "").to_uppercase() + "x");
        let failure = failure.expect_err("it differs");
        assert!(failure.starts_with("1 of 2 cases differ; "), "{failure}");
        assert!(failure.ends_with("txt:7: two lines\n  expected: ab\n  found:    ABx"), "{failure}");
    }

    #[test]
    fn a_file_without_cases_and_a_name_that_is_used_twice_are_refused() {
        let failure = checked("nothing\n", str::to_owned).expect_err("no case");
        assert!(failure.ends_with("holds no case"), "{failure}");
        let failure = checked("=== a\n=== a\n", str::to_owned).expect_err("a name twice");
        assert!(failure.ends_with("have the same name"), "{failure}");
    }

    #[test]
    fn wildcards_stand_for_text_within_a_line_and_stay_when_cases_are_recorded() {
        assert!(is_same("a[..]c", "abc") && is_same("[..]", "") && is_same("a[..]b[..]c", "a-b-c"));
        assert!(!is_same("a[..]c", "ab") && !is_same("a[..]b[..]c", "acb") && !is_same("ab[..]bc", "abc"));
        assert_eq!(recorded("it took [..] s\nold", "it took 3 s\nnew"), "it took [..] s\nnew");
    }
}
