//! Phrases that hide the actor or the object of a sentence, in documentation, comments and help.

use std::{collections::BTreeMap, env, fmt::Write as _, fs, path::Path};

use super::{files, root, rust_files};

/// Name of a pattern, and its phrases.
const PATTERNS: [(&str, &str); 11] = [
    ("tell", "tell|tells|told|telling"),
    ("who", "who|whom|whose|whoever|nobody|somebody"),
    (
        "what-is",
        "what is|what are|what was|what were|what it|what they|what the|what of|what a|what has|what had|what does|what must|what may",
    ),
    ("stands", "stands|stood"),
    ("own", "of its own|of their own|by itself|by themselves"),
    ("judge", "judge|judges|judged|verdict of"),
    ("as-it-is", "as it is|as it was|as they are|as they were"),
    ("beside", "beside"),
    ("anew", "anew"),
    ("comes-to", "comes to|comes of|come of|came to"),
    ("makes-of", "makes of|make of|will do|would do|bears out|hears|heard|believes|doubts"),
];

/// Words of a sentence above which a reader loses its beginning.
const LONG: usize = 30;

/// Recorded maximum for each pattern and place.
const RECORDED: &str = "integration-tests/tests/integration/tidy/words.txt";
/// Help of all programs, as generated.
const HELP: &str = "docs/reference/command-line.md";

type Counts = BTreeMap<(String, &'static str), usize>;

/// Text without code spans, links and fenced code, as blocks of prose.
fn blocks(markdown: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    let mut is_code = false;
    for line in markdown.lines().map(str::trim) {
        if line.starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let begins = line.is_empty()
            || line.starts_with(['-', '*', '|', '#', '`', '>'])
            || line.starts_with(|c: char| c.is_ascii_digit());
        if begins {
            blocks.push(String::new());
        }
        if !is_code && let Some(block) = blocks.last_mut() {
            let _ = write!(block, "{line} ");
        }
    }
    blocks.iter().map(|block| without_code(block)).collect()
}

fn without_code(block: &str) -> String {
    block.split('`').enumerate().map(|(number, part)| if number % 2 == 0 { part } else { "X" }).collect()
}

/// Whole-line comments as blocks of prose.
fn comments(source: &str) -> Vec<String> {
    let strip = |line: &str| line.trim().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']).to_owned());
    let text: Vec<String> = source.lines().map(|line| strip(line).unwrap_or_default()).collect();
    blocks(&text.join("\n"))
}

/// Occurrences of the phrases in a block.
fn occurrences(block: &str, phrases: &str) -> usize {
    let words: Vec<String> = block
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let count = |phrase: &str| {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        words.windows(phrase.len()).filter(|window| window.iter().eq(&phrase)).count()
    };
    phrases.split('|').map(count).sum()
}

fn long_sentences(block: &str) -> usize {
    let sentences = block.split_inclusive(['.', '?', '!', ':', ';', '|']);
    sentences.filter(|sentence| sentence.split_whitespace().count() > LONG).count()
}

/// Adds the patterns of a text to the counts of its place.
fn add(counts: &mut Counts, place: &'static str, blocks: &[String]) {
    for (name, phrases) in PATTERNS {
        let found: usize = blocks.iter().map(|block| occurrences(block, phrases)).sum();
        *counts.entry((name.to_owned(), place)).or_default() += found;
    }
    let long: usize = blocks.iter().map(|block| long_sentences(block)).sum();
    *counts.entry(("long".to_owned(), place)).or_default() += long;
}

fn count() -> Counts {
    let mut counts = Counts::new();
    let mut found = Vec::new();
    files(&root(), &mut found);
    let is_document = |path: &Path| path.extension().is_some_and(|end| end == "md") && !path.ends_with("CHANGELOG.md");
    for path in found.iter().filter(|path| is_document(path)) {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let place = if path.ends_with(HELP) { "help" } else { "docs" };
        // Help is printed as blocks of code.
        let text = if place == "help" { text.replace("```", "") } else { text };
        add(&mut counts, place, &blocks(&text));
    }
    for (_, text) in rust_files() {
        add(&mut counts, "comments", &comments(&text));
    }
    counts
}

#[test]
fn no_phrase_that_hides_the_actor_is_used_more_often_than_recorded() {
    let counts = count();
    let text: String = counts.iter().map(|((pattern, place), count)| format!("{pattern} {place} {count}\n")).collect();
    let path = root().join(RECORDED);
    if env::var_os("FLOTILLA_RECORD").is_some_and(|value| value == "1") {
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let recorded = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let recorded: BTreeMap<(&str, &str), usize> = recorded
        .lines()
        .filter_map(|line| {
            let mut parts = line.split(' ');
            Some(((parts.next()?, parts.next()?), parts.next()?.parse().ok()?))
        })
        .collect();
    let mut differences = String::new();
    for ((pattern, place), &count) in &counts {
        let maximum = recorded.get(&(pattern.as_str(), *place)).copied().unwrap_or_default();
        if count > maximum {
            let phrases =
                PATTERNS.iter().find(|(name, _)| name == pattern).map_or("more than 30 words", |(_, phrases)| phrases);
            let _ = writeln!(
                differences,
                "{place}: {count} instead of {maximum} of {phrases:?}; name the actor and the object"
            );
        } else if count < maximum {
            let _ = writeln!(
                differences,
                "{place}: {count} instead of {maximum} of {pattern}; record it with FLOTILLA_RECORD=1"
            );
        }
    }
    assert!(differences.is_empty(), "{RECORDED}:\n{differences}");
}

#[test]
fn phrases_are_found_in_prose_and_not_in_code() {
    let found = |text: &str, phrases: &str| blocks(text).iter().map(|block| occurrences(block, phrases)).sum::<usize>();
    assert_eq!(found("What is told to\nsomebody: `tell`, retold.", "tell|told"), 1);
    assert_eq!(found("The kubelet has what\nit needs, and what IS left.", "what it|what is"), 2);
    assert_eq!(found("```\ntell\n```\ntell", "tell"), 1);
    let prose = comments("let a = 1; // anew\n/// It is made anew\n/// twice: anew.");
    assert_eq!(prose.iter().map(|block| occurrences(block, "anew")).sum::<usize>(), 2);
}
