//! The page: a report that a browser shows, in one file that asks for nothing else.
//!
//! Knows: how text is kept from being read as markup or as code, and what the browser is told to refuse. Must not know: what is in
//! a report, or how the page draws it.

use std::io::{self, Write};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flotilla_account::kept::Kept;
use flotilla_cluster::Cluster;
use flotilla_framework::{extender::Extender, extension::Plugin, profile::Profile, registry::Registry};
use ring::digest::{SHA256, digest};
use serde::Serialize;

pub(crate) mod report;
pub(crate) use flotilla_account::told;

pub(crate) use report::Report;

/// How hard data is packed: the usual level of zlib. The next ones take twice as long for a hundredth less.
const LEVEL: u8 = 6;

/// The page around its style, its script and its data.
const FRAME: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/page.css");
/// The parts of the script, in the order in which they use each other.
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
/// The code that answers new questions, for wasm32 and packed: `cargo xtask page-engine` makes it.
const ENGINE: &[u8] = include_bytes!("../assets/engine.wasm.zlib");
/// The last part, which uses all others.
const LAST: &str = include_str!("../assets/page.js");

/// What the page of a live cluster has beside that: the view of the running coordinator, and uPlot, which draws its charts.
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

/// Without a cluster no page has it.
#[cfg(not(feature = "cluster"))]
mod live {
    pub(super) const STYLE: [&str; 0] = [];
    pub(super) const SCRIPT: [&str; 0] = [];
}

/// Stands where the parts of a live cluster would be.
const NOT_LIVE: &str = "const live = null;\n";

/// Writes the page with a report in it.
///
/// The policy allows the page its own style and script by their hashes and nothing else, so that a name in the cluster that got
/// past all escaping could still not be run. A served page may also ask the server that it came from.
pub(crate) fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let is_live = report.serving.is_some_and(|serving| serving.is_live);
    let (script, style) = (script(is_live), style(is_live));
    let policy = policy(&script, &style, report);
    let data = embedded(report)?;
    // The module is of no use without a cluster.
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

/// What the browser lets the page do. It may compile WebAssembly only where the report has a module: what that can do is to answer
/// what the script asks it.
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

/// What a page needs to answer new questions about a cluster. `None` where it would answer otherwise than this command: further plugins,
/// compiled in or modules, are not in its module, and no page calls extenders.
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

/// Bytes as text that the page unpacks.
fn packed(bytes: &[u8]) -> String {
    STANDARD.encode(miniz_oxide::deflate::compress_to_vec_zlib(bytes, LEVEL))
}

/// JSON that may stand between the tags of a script: without `<`, which could end it or begin a comment, and without `&` and `>`,
/// which older readers of XHTML take for markup. Outside strings JSON has none of them.
fn embedded(data: &impl Serialize) -> io::Result<String> {
    let text = serde_json::to_string(data)?;
    Ok(text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
}

#[cfg(test)]
mod tests;
