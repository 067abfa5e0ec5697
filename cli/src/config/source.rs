//! A configuration as it is named on the command line: a file, the standard input, or the defaults.
//!
//! Knows: where the text is, and how it is examined. Must not know: what is done with what it says.

use std::path::Path;

use flotilla_configuration::{Cause, ConfigErrors, Configuration, Examination, Migration, examine, named_modules};
use flotilla_runtime::modules;

use super::{
    embedded::{self, Block},
    gates::Gates,
};
use crate::{
    input,
    output::{Failure, tell},
};

/// The word for the configuration that kube-scheduler has without a file.
const DEFAULT: &str = "default";

/// A text that should be a configuration.
pub(super) struct Source {
    /// What messages call it.
    pub(super) name: String,
    /// All of the file.
    pub(super) text: String,
    /// Where in a ConfigMap the configuration stands.
    block: Option<Block>,
}

/// A configuration that is valid, if perhaps not for this version of Flotilla.
pub(super) struct Loaded {
    /// What messages call it.
    pub(super) name: String,
    /// All of the file; `None` for the defaults.
    pub(super) text: Option<String>,
    /// What it comes to.
    pub(super) configuration: Configuration,
}

impl Source {
    /// Reads a file; what goes wrong, as one line.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let (name, text) = input::read(path)?;
        let mut blocks = embedded::find(&text);
        if blocks.len() > 1 {
            let line = |block: &Block| text.get(..block.start).unwrap_or_default().matches('\n').count() + 1;
            let lines: Vec<String> = blocks.iter().map(|block| line(block).to_string()).collect();
            let lines = lines.join(", ");
            return Err(format!(
                "{name}: holds configurations at the lines {lines}; expected one, so give each in a file of its own"
            ));
        }
        let block = blocks.pop();
        Ok(Self { name, text, block })
    }

    /// What the configuration is found to be.
    pub(super) fn examine(&self, gates: &Gates) -> Examination {
        let alone = self.block.as_ref().map(|block| embedded::alone(&self.text, block));
        let text = alone.as_deref().unwrap_or(&self.text);
        modules::find(gates.registry, &named_modules(text));
        examine(text, &self.name, &gates.gates, gates.registry)
    }

    /// The whole text with the configuration in v1.
    pub(super) fn migrate(&self) -> Result<Migration, ConfigErrors> {
        let Some(block) = &self.block else { return flotilla_configuration::migrate(&self.text, &self.name) };
        let migration = flotilla_configuration::migrate(&embedded::alone(&self.text, block), &self.name)?;
        Ok(Migration { text: embedded::put_back(&self.text, block, &migration.text), ..migration })
    }

    /// The same file with another text.
    pub(super) fn with_text(name: String, text: String) -> Self {
        let block = embedded::find(&text).pop();
        Self { name, text, block }
    }
}

/// Warnings about a file, each said to be one behind its place.
pub(super) fn warned(name: &str, warnings: &[String]) -> Vec<String> {
    let place = |warning: &str| {
        let mut parts = warning.strip_prefix(name)?.splitn(4, ':').skip(1);
        let (line, column, rest) = (parts.next()?, parts.next()?, parts.next()?);
        Some(format!("{name}:{line}:{column}: warning:{rest}"))
    };
    warnings.iter().map(|warning| place(warning).unwrap_or_else(|| format!("warning: {warning}"))).collect()
}

/// The configuration that `path` names, or the defaults for nothing. Its warnings are told, and so is what this version
/// lacks.
pub(super) fn load(path: Option<&Path>, gates: &Gates) -> Result<Loaded, Failure> {
    let Some(path) = path.filter(|path| *path != Path::new(DEFAULT) || path.exists()) else {
        return Ok(Loaded { name: DEFAULT.to_owned(), text: None, configuration: Configuration::default() });
    };
    let source = Source::read(path).map_err(|error| Failure::input(vec![error]).with_code(1))?;
    let Examination { configuration, warnings, errors } = source.examine(gates);
    tell(&warned(&source.name, &warnings));
    let Some(configuration) = configuration else {
        let lines = errors.iter().map(ToString::to_string).collect();
        return Err(Failure::input(lines).with_code(1));
    };
    let lacking = errors.iter().flat_map(|found| &found.errors).filter(|error| error.cause == Cause::NotImplemented);
    let lacking = lacking.count();
    if lacking > 0 {
        let things = if lacking == 1 { "a thing" } else { "things" };
        let name = &source.name;
        tell(&[format!(
            "{name}: needs {things} that this version of Flotilla lacks; see flotilla config check {name}"
        )]);
    }
    Ok(Loaded { name: source.name, text: Some(source.text), configuration })
}
