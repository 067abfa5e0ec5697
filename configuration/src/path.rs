//! Paths such as `profiles[0].plugins.score.enabled[1].name`.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    Key(String),
    Index(usize),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Path(Vec<Segment>);

impl Path {
    pub(super) fn key(&self, key: &str) -> Self {
        self.join(Segment::Key(key.to_owned()))
    }

    pub(super) fn index(&self, index: usize) -> Self {
        self.join(Segment::Index(index))
    }

    pub(super) fn join(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }

    pub(super) fn concat(&self, relative: &Self) -> Self {
        let mut segments = self.0.clone();
        segments.extend(relative.0.iter().cloned());
        Self(segments)
    }

    pub(super) fn is_within(&self, ancestor: &Self) -> bool {
        self.0.starts_with(&ancestor.0)
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.0
    }
}

impl FromIterator<Segment> for Path {
    fn from_iter<I: IntoIterator<Item = Segment>>(segments: I) -> Self {
        Self(segments.into_iter().collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return out.write_str("document");
        }
        for (depth, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(out, "[{index}]")?,
                Segment::Key(key) if is_plain(key) => {
                    let dot = if depth == 0 { "" } else { "." };
                    write!(out, "{dot}{key}")?;
                }
                Segment::Key(key) => write!(out, "[{}]", super::report::quoted(key))?,
            }
        }
        Ok(())
    }
}

/// Whether `key` is unambiguous in a path without quotes.
fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.len() <= 64 && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
