//! Compiled patterns, kept for the evaluations that come after.
//!
//! Knows: how much compiling and searching take. Must not know: what is searched for.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use super::Pattern;
use crate::{effort::Effort, value::Failure};

/// The bytes that patterns are compiled into, one after the other, until one is enough: most need a few hundred. The largest is
/// that of `\pL{1000}`, the longest repetition that Go takes of its largest class. A pattern that takes more is an error here and
/// a pattern in Go.
const SIZES: [usize; 6] = [8 << 10, 64 << 10, 512 << 10, 4 << 20, 12 << 20, 48 << 20];

/// How many bytes of patterns are kept from one evaluation to the next, each counted as the size that was enough for it. With what
/// searches keep, up to 256 KiB each, they take 33 MiB at most; those that are too large are kept to the end of the evaluation.
const MAX_KEPT: usize = 1 << 20;

/// The work of compiling into so many bytes, in units of 10 ns: the 9 MB of `\pL{300}` take 66 ms.
const fn compiling(bytes: usize) -> u64 {
    bytes as u64
}

/// Compiled patterns of one owner, by text.
#[derive(Debug, Default)]
pub struct Patterns {
    kept: BTreeMap<Arc<str>, (Known, usize)>,
    bytes: usize,
    /// The last one that was too large to be kept.
    large: Option<(Arc<str>, Known, usize)>,
}

type Known = Result<Arc<Pattern>, Arc<str>>;

/// A pattern with the work of a search.
#[derive(Debug)]
pub(crate) struct Found {
    pattern: Arc<Pattern>,
    size: usize,
}

impl Patterns {
    /// About how many bytes the kept ones take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// An evaluation is over.
    pub(crate) fn end(&mut self) {
        self.large = None;
    }

    /// The pattern of a text.
    ///
    /// # Errors
    /// The outer one: there is no work left for it. The inner one: the text is no pattern; in Go's words, as near as can be told.
    pub(crate) fn get(&mut self, text: &Arc<str>, effort: &mut Effort) -> Result<Result<Found, Arc<str>>, Failure> {
        let found = |known: &Known, size: usize| known.clone().map(|pattern| Found { pattern, size });
        if let Some((known, size)) = self.kept.get(text) {
            return Ok(found(known, *size));
        }
        if let Some((_, known, size)) = self.large.as_ref().filter(|(large, ..)| large == text) {
            return Ok(found(known, *size));
        }
        // What is read is no longer than the expression or a text that was counted.
        effort.work((text.len() as u64).saturating_mul(20))?;
        for size in SIZES {
            effort.work(compiling(size))?;
            let known: Known = match Pattern::compile(text, size) {
                Ok(None) => continue,
                Ok(Some(pattern)) => Ok(Arc::new(pattern)),
                Err(told) => Err(told.into()),
            };
            let answer = found(&known, size);
            self.keep(text, known, size);
            return Ok(answer);
        }
        Ok(Err(format!("error parsing regexp: expression too large: `{text}`").into()))
    }

    fn keep(&mut self, text: &Arc<str>, known: Known, size: usize) {
        let size_with_text = size + text.len();
        if size_with_text > MAX_KEPT / 2 {
            self.large = Some((Arc::clone(text), known, size));
            return;
        }
        if self.bytes + size_with_text > MAX_KEPT {
            self.kept.clear();
            self.bytes = 0;
        }
        self.bytes += size_with_text;
        self.kept.insert(Arc::clone(text), (known, size));
    }
}

impl Found {
    /// The work of a search over so many bytes: it looks at each state of the pattern at each of them at worst.
    fn searching(&self, bytes: usize) -> u64 {
        20 + (bytes as u64 + 1).saturating_mul(self.size as u64) / 2_048
    }

    /// Whether it matches anywhere.
    ///
    /// # Errors
    /// There is no work left for it.
    pub(crate) fn is_match(&self, text: &str, effort: &mut Effort) -> Result<bool, Failure> {
        effort.work(self.searching(text.len()))?;
        Ok(self.pattern.is_match(text))
    }

    /// The first matches, no more than a number of them. A match that is empty is none right behind another one.
    ///
    /// # Errors
    /// There is no work left for them.
    pub(crate) fn find_all(&self, text: &str, most: usize, effort: &mut Effort) -> Result<Vec<Range<usize>>, Failure> {
        let (mut all, mut from, mut last) = (Vec::new(), 0, None);
        while all.len() < most && from <= text.len() {
            // Each search may read all that is left.
            effort.work(self.searching(text.len() - from))?;
            let Some(found) = self.pattern.find_at(text, from) else { break };
            let is_empty = found.is_empty();
            if is_empty && last == Some(found.end) {
                from = found.end + 1;
                continue;
            }
            from = found.end;
            last = Some(found.end);
            // A search for bytes also finds parts of characters.
            if text.is_char_boundary(found.start) && text.is_char_boundary(found.end) {
                all.push(found);
            }
        }
        Ok(all)
    }
}
