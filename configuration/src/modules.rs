//! Modules that a configuration names as plugins.

use flotilla_framework::modules::{NamedModule, Source};

use super::{
    Block, Path, Report, decode, header,
    wire::{self, PluginConfig},
};

/// The modules that a configuration names, in its order; the caller loads them before [`load`](super::load). Empty if the text is
/// unreadable, which `load` reports.
#[must_use]
pub fn named_modules(text: &str) -> Vec<NamedModule> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut report = Report::new("", text);
    let document = decode::document(&mut report, text).filter(|document| header::check(&mut report, document));
    let document = document.and_then(|document| {
        decode::decode::<wire::Document>(&mut report, header::without(document), &Path::default())
    });
    let profiles = document.and_then(|document| document.profiles).unwrap_or_default();
    let configs = profiles.into_iter().flat_map(|Block(profile)| profile.plugin_config.unwrap_or_default());
    let named = |Block(config): Block<PluginConfig>| {
        let (plugin, args) = (config.name?, config.args?);
        Some(NamedModule { plugin, source: Source::of(&args)?, args })
    };
    configs.filter_map(named).collect()
}

/// The plugins with module arguments, and their sources.
pub(super) fn of(configs: &[Block<PluginConfig>]) -> impl Iterator<Item = (&str, Source)> {
    configs.iter().filter_map(|Block(config)| Some((config.name.as_deref()?, Source::of(config.args.as_ref()?)?)))
}

#[cfg(test)]
mod tests {
    use super::named_modules;

    #[test]
    fn plugins_with_an_address_are_modules() {
        let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
                    - pluginConfig:\n  - name: A\n    args: {guestURL: 'file:///a.wasm', sha256: ff}\n  \
                    - name: NodeAffinity\n    args: {}\n- pluginConfig:\n  - {name: B, args: {guestURL: 'https://b/b'}}\n";
        let named = named_modules(text);
        let shown: Vec<_> = named.iter().map(|named| (&*named.plugin, &*named.source.url)).collect();
        assert_eq!(shown, [("A", "file:///a.wasm"), ("B", "https://b/b")]);
        assert_eq!(named[0].source.sha256.as_deref(), Some("ff"));
        assert!(named_modules("profiles: [").is_empty() && named_modules("").is_empty());
    }
}
