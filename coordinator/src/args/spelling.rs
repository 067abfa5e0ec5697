//! The spellings of flags that Go's command lines accept and clap does not.

use std::ffi::OsString;

/// A word of the command line as clap reads it: `_` in the name of a flag is `-`, and `--version` takes `true` and `raw`.
///
/// Source: `WordSepNormalizeFunc` in `k8s.io/component-base/cli/flag` and `k8s.io/component-base/version/verflag`.
pub(super) fn normalized(word: OsString) -> OsString {
    let Some(text) = word.to_str().filter(|text| text.starts_with("--")) else { return word };
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let name = name.replace('_', "-");
    match value {
        Some("true" | "raw") if name == "--version" => name.into(),
        Some(value) => format!("{name}={value}").into(),
        None => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_flags_are_normalized() {
        for (word, read) in [
            ("--leader_elect=true", "--leader-elect=true"),
            ("--config=/a_b.yaml", "--config=/a_b.yaml"),
            ("--secure_port", "--secure-port"),
            ("--version=raw", "--version"),
            ("--version=true", "--version"),
            ("a_b", "a_b"),
            ("-v=4", "-v=4"),
        ] {
            assert_eq!(normalized(word.into()), OsString::from(read), "{word}");
        }
    }
}
