//! Paths in a document.

use std::fmt;

/// One step down a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// Into the value of a key.
    Key(Box<str>),
    /// Into an element of a list, counted from 0.
    Index(usize),
}

/// The steps from the root of a document to a node; empty for the root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Path(Vec<Step>);

impl Path {
    /// The child under `key`.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.join(Step::Key(key.into()))
    }

    /// The child at `index`.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.join(Step::Index(index))
    }

    /// The descendant under these keys.
    #[must_use]
    pub fn keys(&self, keys: &[&str]) -> Self {
        self.concat(&keys.iter().map(|&key| Step::Key(key.into())).collect())
    }

    /// This path, followed by `relative`.
    #[must_use]
    pub fn concat(&self, relative: &Self) -> Self {
        Self(self.0.iter().chain(&relative.0).cloned().collect())
    }

    /// The steps, from the root.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    fn join(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }
}

impl FromIterator<Step> for Path {
    fn from_iter<I: IntoIterator<Item = Step>>(steps: I) -> Self {
        Self(steps.into_iter().collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(out, "[{index}]")?,
                Step::Key(key) if key.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                    write!(out, "{}{key}", if depth == 0 { "" } else { "." })?;
                }
                Step::Key(key) => write!(out, "[{key}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_printed_as_kubectl_users_write_it() {
        let path = Path::default().keys(&["spec", "containers"]).index(0).keys(&["requests", "example.com/gpu"]);
        assert_eq!(path.to_string(), "spec.containers[0].requests[example.com/gpu]");
        assert_eq!(Path::default().to_string(), "");
    }
}
