//! Import cycles among the files of a crate.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{files, is_test, root};

/// Maximum number of files in a cycle.
const MAX_FILES: usize = 6;
/// Maximum number of followed re-exports in a path.
const MAX_EXPORTS: usize = 8;

/// Path segments; a module's path is relative to its crate.
type Parts<'a> = Vec<&'a str>;
type Crate<'a> = BTreeMap<Parts<'a>, Names<'a>>;

#[derive(Default)]
struct Names<'a> {
    /// Imported name or `*`, its path, and whether it is a re-export.
    imports: Vec<(&'a str, Parts<'a>, bool)>,
    /// Paths and identifiers outside of `use`.
    paths: BTreeSet<Parts<'a>>,
}

/// Tokens of a source, without tests, literals, and the paths of `pub(in path)`.
fn flatten(source: TokenStream, tokens: &mut Vec<String>) {
    let is_test = |attribute: String| ["cfg(test", "cfg(all(test"].iter().any(|start| attribute.starts_with(start));
    let mut trees = source.into_iter();
    while let Some(tree) = trees.next() {
        let last = tokens.last().map_or("", String::as_str);
        match tree {
            TokenTree::Group(group) if last == "#" && is_test(group.stream().to_string().replace(' ', "")) => {
                let ends = |tree: &TokenTree| match tree {
                    TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                    other => other.to_string() == ";",
                };
                trees.find(ends);
            }
            TokenTree::Group(group) if last == "pub" && group.delimiter() == Delimiter::Parenthesis => {}
            TokenTree::Group(group) => {
                tokens.push("{".to_owned());
                flatten(group.stream(), tokens);
                tokens.push("}".to_owned());
            }
            TokenTree::Punct(sign) if last == ":" && sign.as_char() == ':' => {
                tokens.pop();
                tokens.push("::".to_owned());
            }
            TokenTree::Literal(_) => tokens.push("0".to_owned()),
            other => tokens.push(other.to_string()),
        }
    }
}

/// Parses a branch of a `use`, and returns the token after it.
fn branch<'a>(
    tokens: &mut impl Iterator<Item = &'a str>,
    trunk: &Parts<'a>,
    found: &mut Vec<(&'a str, Parts<'a>)>,
) -> &'a str {
    let (mut path, mut name) = (trunk.clone(), None);
    loop {
        match tokens.next().unwrap_or(";") {
            "::" => {}
            "as" => name = tokens.next(),
            "{" => {
                while branch(tokens, &path, found) == "," {}
                path.clear();
            }
            end @ ("," | "}" | ";") => {
                if path.len() > trunk.len() {
                    path.pop_if(|last| *last == "self");
                    found.extend(path.last().map(|last| (name.unwrap_or(last), path.clone())));
                }
                return end;
            }
            part => path.push(part),
        }
    }
}

fn read(tokens: &[String]) -> Names<'_> {
    let (mut names, mut path, mut before) = (Names::default(), Parts::new(), "");
    let mut tokens = tokens.iter().map(String::as_str).peekable();
    while let Some(token) = tokens.next() {
        if before != "::" && token != "::" && !path.is_empty() {
            names.paths.insert(std::mem::take(&mut path));
        }
        // Types capture lifetimes with `use<'a>`.
        if token == "use" && tokens.peek() != Some(&"<") {
            let mut found = Vec::new();
            branch(&mut tokens, &Parts::new(), &mut found);
            names.imports.extend(found.into_iter().map(|(name, path)| (name, path, before == "pub")));
        } else if token.starts_with(|sign: char| sign.is_alphabetic() || sign == '_') && !matches!(before, "." | "fn") {
            // A method's or new function's name is no path.
            path.push(token);
        }
        before = if (before, token) == (".", ".") { ".." } else { token };
    }
    names
}

/// Module of the file that defines a path used in `module`; `None` for another crate.
fn home<'a>(files: &Crate<'a>, module: &[&'a str], path: &[&'a str], exports: usize) -> Option<Parts<'a>> {
    let above = path.iter().take_while(|part| **part == "super").count();
    let own = usize::from(matches!(*path.first()?, "crate" | "self"));
    let base = if path[0] == "crate" { &[] } else { &module[..module.len().saturating_sub(above)] };
    let path = [base, &path[above + own..]].concat();
    let length = (base.len()..=path.len()).rev().find(|length| files.contains_key(&path[..*length]))?;
    let (module, item) = path.split_at(length);
    let wanted = item.first().filter(|name| exports > 0 && **name != "*");
    let import = wanted.and_then(|wanted| files[module].imports.iter().find(|(name, ..)| name == wanted));
    let import = import.and_then(|(_, path, _)| home(files, module, &[path, &item[1..]].concat(), exports - 1));
    import.or_else(|| (above + own > 0 || length > base.len()).then(|| module.to_vec()))
}

/// Names that a file imports from each other file.
fn imports<'a>(files: &Crate<'a>, module: &[&'a str]) -> BTreeMap<Parts<'a>, BTreeSet<&'a str>> {
    let Names { imports, paths } = &files[module];
    // A re-export is no import unless the file uses it.
    let is_used = |name: &str| paths.iter().any(|path| path[0] == name);
    let imports = imports.iter().filter(|(name, _, is_export)| !is_export || is_used(name)).map(|(_, path, _)| path);
    let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for path in imports.chain(paths.iter().filter(|path| path.len() > 1)) {
        if let Some(other) = home(files, module, path, MAX_EXPORTS).filter(|other| other != module) {
            found.entry(other).or_default().extend(path.last());
        }
    }
    found
}

/// Cycles of more than [`MAX_FILES`], each as lines of a file, an imported file, and the names.
fn circles(sources: &BTreeMap<Parts<'_>, Vec<String>>) -> BTreeSet<String> {
    let files: Crate<'_> = sources.iter().map(|(module, tokens)| (module.clone(), read(tokens))).collect();
    let imports: BTreeMap<_, _> = files.keys().map(|module| (module, imports(&files, module))).collect();
    let reach = |module| {
        let (mut found, mut next) = (BTreeSet::new(), vec![module]);
        while let Some(module) = next.pop() {
            next.extend(imports[module].keys().filter(|other| found.insert(*other)));
        }
        found
    };
    let reached: BTreeMap<_, _> = files.keys().map(|module| (module, reach(module))).collect();
    let circle = |module| reached[module].iter().copied().filter(|other| reached[other].contains(module)).collect();
    let large = files.keys().map(circle).filter(|circle: &BTreeSet<_>| circle.len() > MAX_FILES);
    let ties_of = |circle: BTreeSet<&Parts<'_>>| {
        let ties = circle.iter().flat_map(|from| imports[from].iter().map(move |(to, names)| (from, to, names)));
        let line = |(from, to, names): (&&Parts<'_>, &Parts<'_>, _)| {
            format!("crate::{} imports {names:?} of crate::{}\n", from.join("::"), to.join("::"))
        };
        ties.filter(|(_, to, _)| circle.contains(to)).map(line).collect()
    };
    large.map(ties_of).collect()
}

fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    flatten(text.parse().expect("Rust"), &mut tokens);
    tokens
}

#[test]
fn no_circle_of_imports_has_more_than_six_files() {
    let mut all = Vec::new();
    files(&root(), &mut all);
    let mut found = String::new();
    for folder in all.iter().filter(|path| path.ends_with("Cargo.toml")).map(|path| path.with_file_name("src")) {
        let module = |path: &Path| path.strip_prefix(&folder).ok().map(|path| path.with_extension(""));
        let is_library = folder.join("lib.rs").exists();
        let is_program = |module: &Path| module.starts_with("bin") || (is_library && module == Path::new("main"));
        let code = all.iter().filter(|path| path.extension().is_some_and(|end| end == "rs") && !is_test(path));
        let code: Vec<_> = code.filter_map(|path| Some((module(path)?, path))).collect();
        let sources = code.iter().filter(|(module, _)| !is_program(module)).map(|(module, path)| {
            let parts: Parts<'_> = module.iter().filter_map(|part| part.to_str()).collect();
            let text = fs::read_to_string(path).expect("a file that was listed");
            (if matches!(*parts, ["lib" | "main"]) { Parts::new() } else { parts }, tokens(&text))
        });
        found.extend(circles(&sources.collect()).iter().map(|circle| format!("{}:\n{circle}", folder.display())));
    }
    assert!(found.is_empty(), "circles of more than {MAX_FILES} files:\n{found}");
}

#[test]
fn a_circle_is_found_through_re_exports_and_not_through_tests_or_literals() {
    let found = |of_last: &str| {
        let mut sources = BTreeMap::from([(Parts::new(), tokens("pub use a::{A, self as first}; mod b;"))]);
        for (file, next) in ["a", "b", "c", "d", "e", "f"].iter().zip(["b", "c", "d", "e", "f", "g"]) {
            sources.insert(vec![*file], tokens(&format!("use crate::{{{next}::Next as Other, z}};")));
        }
        sources.insert(vec!["g"], tokens(of_last));
        circles(&sources).len()
    };
    for tie in [
        "use crate::A;",
        "use super::*; fn f() {} use super::a::*;",
        "fn f() -> crate::first::A {}",
        "use crate::first; type B = first::B;",
    ] {
        assert_eq!(found(tie), 1, "{tie}");
    }
    for tie in [
        "pub use crate::A;",
        "// use crate::A;",
        "const A: &str = \"use crate::A;\";",
        "#[cfg(test)] mod tests { use crate::A; }",
        "pub(in crate::a) struct A;",
        "use a::A;",
    ] {
        assert_eq!(found(tie), 0, "{tie}");
    }
}
