//! A configuration named on the command line: a file, standard input, or the defaults.

use std::path::Path;

use flotilla_configuration::{Cause, ConfigErrors, Configuration, Examination, Migration, examine, named_modules};
use flotilla_runtime::modules;

use super::{
    embedded::{self, Block},
    gates::Gates,
};
use crate::{
    input,
    output::{Failure, print_notes},
};

/// The argument that means kube-scheduler's default configuration.
const DEFAULT: &str = "default";

pub(super) struct Source {
    /// The name in messages.
    pub(super) name: String,
    /// The whole file.
    pub(super) text: String,
    /// The lines of the configuration in a ConfigMap.
    block: Option<Block>,
}

/// A valid configuration, though perhaps not for this version of Flotilla.
pub(super) struct Loaded {
    /// The name in messages.
    pub(super) name: String,
    /// The whole file; `None` for the defaults.
    pub(super) text: Option<String>,
    pub(super) configuration: Configuration,
}

impl Source {
    /// Reads a file; the error is one line.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let (name, text) = input::read(path)?;
        let block = only_block(&name, &text)?;
        Ok(Self { name, text, block })
    }

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
        let block = embedded::find(&text).pop().map(|found| found.block);
        Self { name, text, block }
    }
}

/// The configuration in the ConfigMap of a manifest; `None` for a text without ConfigMaps.
fn only_block(name: &str, text: &str) -> Result<Option<Block>, String> {
    let mut found = embedded::find(text);
    if found.len() > 1 {
        let line = |block: &Block| text.get(..block.start).unwrap_or_default().matches('\n').count() + 1;
        let names: Vec<String> =
            found.iter().map(|found| format!("{} (line {})", found.title, line(&found.block))).collect();
        return Err(format!(
            "{name}: holds {} configurations: {}; expected one, so put the one that you mean into its own file",
            names.len(),
            names.join("; ")
        ));
    }
    Ok(found.pop().map(|found| found.block))
}

/// The text of the configuration: that in the ConfigMap of a manifest, in its place, or the whole text.
///
/// # Errors
/// The manifest has several configurations.
pub(crate) fn configuration_text(name: &str, text: String) -> Result<String, String> {
    Ok(only_block(name, &text)?.map(|block| embedded::alone(&text, &block)).unwrap_or(text))
}

/// Inserts `warning:` after the position of each warning.
pub(super) fn warned(name: &str, warnings: &[String]) -> Vec<String> {
    let place = |warning: &str| {
        let mut parts = warning.strip_prefix(name)?.splitn(4, ':').skip(1);
        let (line, column, rest) = (parts.next()?, parts.next()?, parts.next()?);
        Some(format!("{name}:{line}:{column}: warning:{rest}"))
    };
    warnings.iter().map(|warning| place(warning).unwrap_or_else(|| format!("warning: {warning}"))).collect()
}

/// Loads the configuration at `path`, or the defaults. Prints warnings and unsupported features.
pub(super) fn load(path: Option<&Path>, gates: &Gates) -> Result<Loaded, Failure> {
    let Some(path) = path.filter(|path| *path != Path::new(DEFAULT) || path.exists()) else {
        return Ok(Loaded { name: DEFAULT.to_owned(), text: None, configuration: Configuration::default() });
    };
    let source = Source::read(path).map_err(|error| Failure::input(vec![error]).with_code(1))?;
    let Examination { configuration, warnings, errors } = source.examine(gates);
    print_notes(&warned(&source.name, &warnings));
    let Some(configuration) = configuration else {
        let lines = errors.iter().map(ToString::to_string).collect();
        return Err(Failure::input(lines).with_code(1));
    };
    let lacking = errors.iter().flat_map(|found| &found.errors).filter(|error| error.cause == Cause::NotImplemented);
    let lacking = lacking.count();
    if lacking > 0 {
        let things = if lacking == 1 { "a thing" } else { "things" };
        let name = &source.name;
        print_notes(&[format!(
            "{name}: needs {things} that this version of Flotilla lacks; see flotilla config check {name}"
        )]);
    }
    Ok(Loaded { name: source.name, text: Some(source.text), configuration })
}
