//! Compiled patterns, cached across evaluations.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use super::Pattern;
use crate::{effort::Effort, value::Failure};

/// Size limits in bytes for compiling a pattern, tried in turn; most patterns need a few hundred bytes. The largest fits `\pL{1000}`, Go's
/// longest repetition of its largest class. A larger pattern is an error here but not in Go.
const SIZES: [usize; 6] = [8 << 10, 64 << 10, 512 << 10, 4 << 20, 12 << 20, 48 << 20];

/// Maximum bytes of cached patterns, each counted as the size limit that it fitted. With up to 256 KiB of states per pattern, the cache
/// takes at most 33 MiB. A pattern that is too large is dropped at the end of the evaluation.
const MAX_KEPT: usize = 1 << 20;

/// Work of compiling into `bytes`, in units of 10 ns: the 9 MB of `\pL{300}` take 66 ms.
const fn compiling(bytes: usize) -> u64 {
    bytes as u64
}

/// A cache of compiled patterns, by text.
#[derive(Debug, Default)]
pub struct Patterns {
    kept: BTreeMap<Arc<str>, (CompiledPattern, usize)>,
    bytes: usize,
    /// The last pattern that was too large for the cache.
    large: Option<(Arc<str>, CompiledPattern, usize)>,
}

type CompiledPattern = Result<Arc<Pattern>, Arc<str>>;

#[derive(Debug)]
pub(crate) struct Found {
    pattern: Arc<Pattern>,
    size: usize,
}

impl Patterns {
    /// Approximate bytes of the cached patterns.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn end(&mut self) {
        self.large = None;
    }

    /// Returns the compiled pattern. The outer error means that the work limit is reached. The inner error means an invalid pattern,
    /// approximately in Go's words.
    pub(crate) fn get(&mut self, text: &Arc<str>, effort: &mut Effort) -> Result<Result<Found, Arc<str>>, Failure> {
        let found = |known: &CompiledPattern, size: usize| known.clone().map(|pattern| Found { pattern, size });
        if let Some((known, size)) = self.kept.get(text) {
            return Ok(found(known, *size));
        }
        if let Some((_, known, size)) = self.large.as_ref().filter(|(large, ..)| large == text) {
            return Ok(found(known, *size));
        }
        // The text is no longer than the expression or a text that was counted.
        effort.work((text.len() as u64).saturating_mul(20))?;
        for size in SIZES {
            effort.work(compiling(size))?;
            let known: CompiledPattern = match Pattern::compile(text, size) {
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

    fn keep(&mut self, text: &Arc<str>, known: CompiledPattern, size: usize) {
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
    /// Work of a search over `bytes`. In the worst case it visits each state at each byte.
    fn searching(&self, bytes: usize) -> u64 {
        20 + (bytes as u64 + 1).saturating_mul(self.size as u64) / 2_048
    }

    /// Returns an error if the work limit is reached.
    pub(crate) fn is_match(&self, text: &str, effort: &mut Effort) -> Result<bool, Failure> {
        effort.work(self.searching(text.len()))?;
        Ok(self.pattern.is_match(text))
    }

    /// The first `most` matches. An empty match directly after another match does not count. Returns an error if the work limit is reached.
    pub(crate) fn find_all(&self, text: &str, most: usize, effort: &mut Effort) -> Result<Vec<Range<usize>>, Failure> {
        let (mut all, mut from, mut last) = (Vec::new(), 0, None);
        while all.len() < most && from <= text.len() {
            // Each search may read all remaining bytes.
            effort.work(self.searching(text.len() - from))?;
            let Some(found) = self.pattern.find_at(text, from) else { break };
            let is_empty = found.is_empty();
            if is_empty && last == Some(found.end) {
                from = found.end + 1;
                continue;
            }
            from = found.end;
            last = Some(found.end);
            // A search in bytes also finds parts of characters.
            if text.is_char_boundary(found.start) && text.is_char_boundary(found.end) {
                all.push(found);
            }
        }
        Ok(all)
    }
}
