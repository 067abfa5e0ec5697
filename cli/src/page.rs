//! The page: a report for a browser, in one self-contained file.

use std::io::{self, Write};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flotilla_account::kept::Kept;
use flotilla_cluster::Cluster;
use flotilla_framework::{extender::Extender, extension::Plugin, profile::Profile, registry::Registry};
use ring::digest::{SHA256, digest};
use serde::Serialize;

pub(crate) mod report;
pub(crate) use flotilla_account::pod_explanation;

pub(crate) use report::Report;

/// The usual level of zlib. Higher levels take twice as long and save 1 %.
const LEVEL: u8 = 6;

/// The HTML around style, script and data.
const FRAME: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/page.css");
/// The parts of the script, in dependency order.
const SCRIPT: [&str; 9] = [
    include_str!("../assets/words.js"),
    include_str!("../assets/data.js"),
    include_str!("../assets/table.js"),
    include_str!("../assets/map.js"),
    include_str!("../assets/details.js"),
    include_str!("../assets/changes.js"),
    include_str!("../assets/lists.js"),
    include_str!("../assets/engine.js"),
    include_str!("../assets/ask.js"),
];
/// The module for wasm32 that answers new questions, compressed. `cargo xtask page-engine` builds it.
const ENGINE: &[u8] = include_bytes!("../assets/engine.wasm.zlib");
/// The last part, which uses all others.
const LAST: &str = include_str!("../assets/page.js");

/// Additional parts for live clusters: the coordinator's view, and uPlot for its charts.
#[cfg(feature = "cluster")]
mod live {
    pub(super) const STYLE: [&str; 2] =
        [include_str!("../assets/uplot/uPlot.min.css"), include_str!("../assets/live.css")];
    pub(super) const SCRIPT: [&str; 7] = [
        "/*\n",
        include_str!("../assets/uplot/LICENSE"),
        "*/\n",
        include_str!("../assets/uplot/uPlot.iife.min.js"),
        include_str!("../assets/charts.js"),
        include_str!("../assets/trace.js"),
        include_str!("../assets/live.js"),
    ];
}

#[cfg(not(feature = "cluster"))]
mod live {
    pub(super) const STYLE: [&str; 0] = [];
    pub(super) const SCRIPT: [&str; 0] = [];
}

const NOT_LIVE: &str = "const live = null;\n";

/// Writes the page with a report.
///
/// The content security policy allows only the page's style and script, by hash. A name from the cluster that defeats all escaping still
/// cannot run. A served page may also connect to its own server.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let is_live = report.serving.is_some_and(|serving| serving.is_live);
    let (script, style) = (script(is_live), style(is_live));
    let policy = policy(&script, &style, report);
    let data = embedded(report)?;
    // The module is useless without a cluster.
    let kept = report.kept.as_deref().map(packed).unwrap_or_default();
    let engine = report.kept.as_ref().map(|_| STANDARD.encode(ENGINE)).unwrap_or_default();
    let mut rest = FRAME;
    let parts = [
        ("{{policy}}", &policy),
        ("{{style}}", &style),
        ("{{engine}}", &engine),
        ("{{kept}}", &kept),
        ("{{data}}", &data),
        ("{{script}}", &script),
    ];
    for (mark, text) in parts {
        let Some((before, behind)) = rest.split_once(mark) else { continue };
        out.write_all(before.as_bytes())?;
        out.write_all(text.as_bytes())?;
        rest = behind;
    }
    out.write_all(rest.as_bytes())
}

fn script(is_live: bool) -> String {
    let live = if is_live { live::SCRIPT.concat() } else { NOT_LIVE.to_owned() };
    format!("\"use strict\";(() => {{\n{}{live}{LAST}}})();\n", SCRIPT.concat())
}

fn style(is_live: bool) -> String {
    let live = if is_live { live::STYLE.join("\n") } else { String::new() };
    format!("{STYLE}{live}")
}

/// The page's content security policy. WebAssembly is allowed only with a module, which can only answer the script's requests.
fn policy(script: &str, style: &str, report: &Report<'_>) -> String {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    let asks = if report.serving.is_some() { "'self'" } else { "'none'" };
    let modules = if report.kept.is_some() { " 'wasm-unsafe-eval'" } else { "" };
    format!(
        "default-src 'none'; script-src 'sha256-{}'{modules}; style-src 'sha256-{}'; img-src data:; connect-src {asks}; base-uri 'none'; \
         form-action 'none'",
        hash(script),
        hash(style)
    )
}

/// The cluster for new questions. `None` if the page's answers would differ from this command's: the page has no additional plugins and
/// calls no extenders.
pub(crate) fn kept(
    cluster: &Cluster,
    profiles: &[Profile],
    registry: Registry,
    extenders: &[Extender],
) -> io::Result<Option<Vec<u8>>> {
    let built_in = Registry::built_in();
    let names = |registry: Registry| registry.compiled_in().map(Plugin::name);
    let is_own = names(registry).ne(names(built_in)) || profiles.iter().any(|of| built_in.lacking(of).is_some());
    if is_own || !extenders.is_empty() {
        return Ok(None);
    }
    Kept::new(cluster, profiles).encode().map(Some).map_err(io::Error::other)
}

/// Compressed bytes in base64.
fn packed(bytes: &[u8]) -> String {
    STANDARD.encode(miniz_oxide::deflate::compress_to_vec_zlib(bytes, LEVEL))
}

/// JSON that is safe inside a script element: without `<`, which could end it or start a comment, and without `&` and `>`, which older
/// XHTML parsers treat as markup. Outside of strings JSON has none of them.
fn embedded(data: &impl Serialize) -> io::Result<String> {
    let text = serde_json::to_string(data)?;
    Ok(text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
}

#[cfg(test)]
mod tests;
