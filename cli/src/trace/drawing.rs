//! A trace as a self-contained SVG, without fonts and scripts.
//!
//! Texts use the default fixed-width font with room for a wide one, because an SVG cannot measure text. Titles show the attributes of a
//! span.

use std::fmt::Write as _;

use super::{
    text::{count, cut},
    waterfall::{Row, Waterfall},
    words::{duration, moment},
};
use crate::output::printable;

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 20.0;
const LINE: f64 = 24.0;
/// The width of a character at 12 pixels, for all texts.
const CHARACTER: f64 = 7.3;
/// The indent of a nested span.
const INDENT: f64 = 16.0;
const NARROWEST_NAMES: f64 = 120.0;
const WIDEST_NAMES: f64 = 320.0;
/// The width of the duration after the longest bar.
const BEHIND: f64 = 70.0;
const BAR: f64 = 12.0;
/// The minimum width, so that every bar is visible.
const SHORTEST_BAR: f64 = 2.0;
/// The approximate number of time lines.
const TICKS: f64 = 5.0;
/// Distinguishable with color blindness, with enough contrast for text.
const COLOURS: [&str; 8] = ["#1f5fbf", "#c2570c", "#0f7b5f", "#9d2a9d", "#8a6d00", "#0e7490", "#b4234a", "#5b5bd6"];

const STYLE: &str = "\
text{font:12px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#1f2328}\
.title{font-weight:700;font-size:13px}.quiet{fill:#59636e}.failed{fill:#b4234a}\
.tree{stroke:#afb8c1;fill:none}.tick{stroke:#d1d9e0}.stripe{fill:#f6f8fa}";

struct Layout {
    /// The left end and the maximum length of bars.
    bars: f64,
    length: f64,
    /// The top of the first span's line.
    top: f64,
    bottom: f64,
    takes_us: u64,
}

pub(super) fn draw(trace: &Waterfall) -> String {
    let (legend, legend_height) = legend(trace);
    let names = trace.rows.iter().map(|row| INDENT * row.depth as f64 + CHARACTER * (width_of(&row.name) + 0.5));
    let names = names.fold(NARROWEST_NAMES, f64::max).min(WIDEST_NAMES);
    let bars = MARGIN + names + 12.0;
    let top = 62.0 + legend_height + LINE;
    let bottom = top + LINE * trace.rows.len() as f64;
    let layout = Layout { bars, length: WIDTH - MARGIN - BEHIND - bars, top, bottom, takes_us: trace.takes_us };
    let height = bottom + MARGIN;

    let mut svg = String::new();
    let title = format!(
        "{} of {} in {}",
        count(trace.rows.len(), "span"),
        count(trace.processes.len(), "process"),
        duration(trace.takes_us)
    );
    let name = trace.rows.first().map_or("", |row| row.name.as_str());
    let (id, from) = (escaped(&trace.id), moment(trace.from_us));
    put(
        &mut svg,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\">\n<title>{}: {title}</title>\n<style>{STYLE}</style>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"#ffffff\" stroke=\"#d1d9e0\"/>\n",
            escaped(name),
            WIDTH - 1.0,
            height - 1.0,
        ),
    );
    put(&mut svg, format_args!("<text class=\"title\" x=\"{MARGIN}\" y=\"30\">{title}</text>\n"));
    put(&mut svg, format_args!("<text class=\"quiet\" x=\"{MARGIN}\" y=\"50\">trace {id}, from {from}</text>\n"));
    svg.push_str(&legend);
    ticks(&mut svg, &layout);
    for (number, row) in trace.rows.iter().enumerate() {
        span(&mut svg, &layout, trace, row, number);
    }
    svg.push_str("</svg>\n");
    svg
}

fn put(svg: &mut String, words: std::fmt::Arguments<'_>) {
    _ = svg.write_fmt(words);
}

/// The colors of the processes, and the height of the legend.
fn legend(trace: &Waterfall) -> (String, f64) {
    let mut svg = String::new();
    let (mut x, mut y) = (MARGIN, 74.0);
    for (number, process) in trace.processes.iter().enumerate() {
        let width = 18.0 + CHARACTER * width_of(&process.name) + 20.0;
        if x > MARGIN && x + width > WIDTH - MARGIN {
            (x, y) = (MARGIN, y + 20.0);
        }
        let (colour, name) = (colour(number), escaped(&process.name));
        put(
            &mut svg,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" rx=\"3\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{y:.1}\">{name}</text>\n",
                y - 10.5,
                x + 18.0,
            ),
        );
        x += width;
    }
    (svg, y - 74.0 + 20.0)
}

fn ticks(svg: &mut String, layout: &Layout) {
    let step = step_us(layout.takes_us);
    let mut at_us = 0;
    while at_us <= layout.takes_us {
        let x = layout.at(at_us);
        let (top, bottom) = (layout.top - 4.0, layout.bottom);
        put(
            svg,
            format_args!(
                "<path class=\"tick\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/>\
             <text class=\"quiet\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                top - 6.0,
                plain(at_us, step),
            ),
        );
        let Some(next) = at_us.checked_add(step) else { break };
        at_us = next;
    }
}

/// 1, 2 or 5 times a power of ten, for about the wanted number of steps.
fn step_us(takes_us: u64) -> u64 {
    let wanted = takes_us as f64 / TICKS;
    let mut power = 1_u64;
    while let Some(next) = power.checked_mul(10).filter(|next| *next as f64 <= wanted) {
        power = next;
    }
    let factor = [1_u64, 2, 5, 10].into_iter().min_by(|one, other| {
        let off = |factor: &u64| (power as f64 * *factor as f64 - wanted).abs();
        off(one).total_cmp(&off(other))
    });
    power.saturating_mul(factor.unwrap_or(1))
}

/// A multiple of a step, without insignificant digits.
fn plain(us: u64, step_us: u64) -> String {
    let (unit_us, unit) = match step_us {
        _ if us == 0 => return "0".to_owned(),
        ..500 => (1.0, "\u{b5}s"),
        500..500_000 => (1e3, "ms"),
        _ => (1e6, "s"),
    };
    format!("{} {unit}", us as f64 / unit_us)
}

fn span(svg: &mut String, layout: &Layout, trace: &Waterfall, row: &Row, number: usize) {
    let top = layout.top + LINE * number as f64;
    let (middle, base) = (top + LINE / 2.0, top + LINE / 2.0 + 4.2);
    put(svg, format_args!("<g><title>{}</title>", said(trace, row)));
    if number.is_multiple_of(2) {
        let width = WIDTH - 2.0 * MARGIN + 16.0;
        put(
            svg,
            format_args!(
                "<rect class=\"stripe\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{LINE}\" fill-opacity=\"0.7\"/>",
                MARGIN - 8.0
            ),
        );
    }
    tree(svg, row, top, middle);
    let indent = MARGIN + INDENT * row.depth as f64;
    let name = fitted(&row.name, (layout.bars - 12.0 - indent) / CHARACTER);
    put(svg, format_args!("<text x=\"{indent:.1}\" y=\"{base:.1}\">{}</text>", escaped(&name)));
    let (from, until) = (layout.at(row.start_us), layout.at(row.start_us.saturating_add(row.takes_us)));
    let length = (until - from).max(SHORTEST_BAR);
    put(
        svg,
        format_args!(
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{}\"/>",
            middle - BAR / 2.0,
            colour(row.process),
        ),
    );
    let mut words = duration(row.takes_us);
    let mut class = "";
    if let Some(error) = &row.error {
        let error = if error.is_empty() { "failed" } else { error };
        words = format!("{words} ! {error}");
        class = " class=\"failed\"";
    }
    // Right of the bar, or left of it where there is more room.
    let (right, left) = (WIDTH - MARGIN - (from + length), from - layout.bars);
    let room = |room: f64| (room - 6.0) / CHARACTER;
    if width_of(&words) <= room(right) || right >= left {
        let words = fitted(&words, room(right));
        put(
            svg,
            format_args!("<text{class} x=\"{:.1}\" y=\"{base:.1}\">{}</text>", from + length + 6.0, escaped(&words)),
        );
    } else {
        let words = fitted(&words, room(left));
        put(
            svg,
            format_args!(
                "<text{class} x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">{}</text>",
                from - 6.0,
                escaped(&words)
            ),
        );
    }
    svg.push_str("</g>\n");
}

/// The lines from a span to its ancestors.
fn tree(svg: &mut String, row: &Row, top: f64, middle: f64) {
    let mut path = String::new();
    for (level, line) in row.branch.chars().step_by(2).enumerate() {
        let x = MARGIN + INDENT * level as f64 + 4.0;
        let bottom = top + LINE;
        match line {
            '\u{2502}' => put(&mut path, format_args!("M{x:.1} {top:.1}V{bottom:.1}")),
            '\u{251c}' => put(&mut path, format_args!("M{x:.1} {top:.1}V{bottom:.1}M{x:.1} {middle:.1}h8")),
            '\u{2514}' => put(&mut path, format_args!("M{x:.1} {top:.1}V{middle:.1}h8")),
            _ => {}
        }
    }
    if !path.is_empty() {
        put(svg, format_args!("<path class=\"tree\" d=\"{path}\"/>"));
    }
}

/// The title of a span.
fn said(trace: &Waterfall, row: &Row) -> String {
    let process = &trace.processes[row.process].name;
    let mut text = format!("{} of {process}: {} after {}", row.name, duration(row.takes_us), duration(row.start_us));
    for (key, value) in &row.attributes {
        text.push_str(&format!("\n{key}: {value}"));
    }
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

impl Layout {
    fn at(&self, us: u64) -> f64 {
        self.bars + self.length * us as f64 / self.takes_us.max(1) as f64
    }
}

fn colour(process: usize) -> &'static str {
    COLOURS[process % COLOURS.len()]
}

fn width_of(text: &str) -> f64 {
    text.chars().count() as f64
}

/// Cuts a text to a width in characters.
fn fitted(text: &str, characters: f64) -> String {
    cut(text, characters.max(1.0) as usize)
}

/// Escapes a text for XML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML does not allow these two.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_time_are_round_and_neither_few_nor_many() {
        for (takes, step) in [(0, 1), (7, 1), (12_345, 2_000), (26_000, 5_000), (98_000, 20_000), (1_000_000, 200_000)]
        {
            assert_eq!(step_us(takes), step, "{takes}");
        }
        assert!(u64::MAX / step_us(u64::MAX) < 10);
        assert_eq!(
            (plain(4_000, 2_000), plain(1_500, 500), plain(200, 200)),
            ("4 ms".into(), "1.5 ms".into(), "200 \u{b5}s".into())
        );
    }

    #[test]
    fn what_a_name_holds_stays_text() {
        assert_eq!(escaped("<a href=\"x\">&\u{1b}\u{ffff}"), "&lt;a href=&quot;x&quot;&gt;&amp;\u{fffd}\u{fffd}");
        assert_eq!(
            (fitted("abcd", 3.9), fitted("abc", 3.0), fitted("abc", -1.0)),
            ("ab\u{2026}".into(), "abc".into(), "\u{2026}".into())
        );
    }
}
