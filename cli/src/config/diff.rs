//! `flotilla config diff`: compares the effect of two configurations.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    process::ExitCode,
};

use serde::Serialize;
use serde_json::Value;

use super::{
    args::{DiffArgs, ReportFormat},
    gates::Gates,
    source::{self, Loaded},
    view::{Move, Plugin, ProfileView, Values, View, moves, shown},
};
use crate::output::{Failure, json, print, printable};

/// As in `kubectl diff`, exit code 1 is for differences.
const TROUBLE: u8 = 2;

#[derive(Debug, Serialize)]
struct Differences {
    old: String,
    new: String,
    same: bool,
    profiles: Vec<ProfileDifference>,
    settings: Vec<Difference>,
}

/// A profile that differs or is in one configuration only.
#[derive(Debug, Serialize)]
struct ProfileDifference {
    name: String,
    change: Presence,
    /// For an added profile, the differences from the default profile; empty for a removed one.
    plugins: Vec<PointDifference>,
    args: Vec<Difference>,
    settings: Vec<Difference>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Presence {
    Added,
    Removed,
    Changed,
}

/// The differences at one extension point.
#[derive(Debug, Serialize)]
struct PointDifference {
    point: String,
    added: Vec<Plugin>,
    removed: Vec<Plugin>,
    weights: Vec<WeightDifference>,
    moved: Vec<Move>,
}

#[derive(Debug, Serialize)]
struct WeightDifference {
    name: String,
    old: Option<i64>,
    new: Option<i64>,
}

/// A value that differs; null if it is missing.
#[derive(Debug, Serialize)]
struct Difference {
    path: String,
    old: Option<Value>,
    new: Option<Value>,
}

pub(super) fn diff(args: &DiffArgs, gates: &Gates) -> Result<ExitCode, Failure> {
    let load = |path| source::load(Some(path), gates).map_err(|failure| failure.with_code(TROUBLE));
    let (old, new) = (load(&args.old)?, load(&args.new)?);
    let differences = Differences::between(&old, &new);
    print(|out| match args.output {
        ReportFormat::Text => differences.print(old.text == new.text, out),
        ReportFormat::Json => json(&differences, out),
    })
    .map_err(|failure| failure.with_code(TROUBLE))?;
    Ok(if differences.same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Differences {
    fn between(old: &Loaded, new: &Loaded) -> Self {
        let (old_view, new_view) = (View::of(&old.configuration), View::of(&new.configuration));
        let stock = View::stock_profile();
        let mut profiles = Vec::new();
        for profile in &old_view.profiles {
            match new_view.profile(&profile.name) {
                Some(other) => profiles.extend(ProfileDifference::between(profile, other, &stock)),
                None => profiles.push(ProfileDifference::none(&profile.name, Presence::Removed)),
            }
        }
        for profile in new_view.profiles.iter().filter(|profile| old_view.profile(&profile.name).is_none()) {
            let other = ProfileView { name: profile.name.clone(), ..stock.clone() };
            let added = ProfileDifference::between(&other, profile, &stock)
                .unwrap_or_else(|| ProfileDifference::none(&profile.name, Presence::Added));
            profiles.push(ProfileDifference { change: Presence::Added, ..added });
        }
        let settings = values("", &old_view.settings, &new_view.settings);
        let same = profiles.is_empty() && settings.is_empty();
        Self { old: old.name.clone(), new: new.name.clone(), same, profiles, settings }
    }

    fn print(&self, is_same_text: bool, out: &mut dyn Write) -> io::Result<()> {
        let Self { old, new, .. } = self;
        if self.same && is_same_text {
            return writeln!(out, "{old} and {new} are the same");
        } else if self.same {
            return writeln!(out, "{old} and {new} differ in form and have the same effect");
        }
        writeln!(out, "--- {old}\n+++ {new}")?;
        self.profiles.iter().try_for_each(|profile| profile.print(out))?;
        if !self.settings.is_empty() {
            writeln!(out, "settings")?;
        }
        print_values(&self.settings, "  ", out)
    }
}

impl ProfileDifference {
    fn none(name: &str, change: Presence) -> Self {
        let (plugins, args, settings) = (Vec::new(), Vec::new(), Vec::new());
        Self { name: name.to_owned(), change, plugins, args, settings }
    }

    /// `None` for two profiles with the same effect.
    fn between(old: &ProfileView, new: &ProfileView, stock: &ProfileView) -> Option<Self> {
        let keys = old.points.iter().chain(&new.points).map(|(point, _)| point);
        let mut seen = BTreeSet::new();
        let plugins =
            keys.filter(|point| seen.insert(*point)).filter_map(|point| PointDifference::between(point, old, new));
        let plugins: Vec<PointDifference> = plugins.collect();
        let names: BTreeSet<&String> = old.args.keys().chain(new.args.keys()).collect();
        let none = Values::new();
        // A plugin that does not run has its default arguments.
        let args = |profile: &'_ ProfileView, name: &String| -> Values {
            profile.args.get(name).or_else(|| stock.args.get(name)).unwrap_or(&none).clone()
        };
        let args: Vec<Difference> = names
            .into_iter()
            .flat_map(|name| values(&format!("{name}."), &args(old, name), &args(new, name)))
            .collect();
        let settings = values("", &old.settings, &new.settings);
        let is_same = plugins.is_empty() && args.is_empty() && settings.is_empty();
        let name = new.name.clone();
        (!is_same).then_some(Self { name, change: Presence::Changed, plugins, args, settings })
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let is_stock = self.plugins.is_empty() && self.args.is_empty() && self.settings.is_empty();
        let name = printable(&self.name);
        match (self.change, is_stock) {
            (Presence::Removed, _) => writeln!(out, "- profile {name}")?,
            (Presence::Added, true) => writeln!(out, "+ profile {name}, like the one that is there by default")?,
            (Presence::Added, false) => {
                writeln!(out, "+ profile {name}, which differs from the one that is there by default")?
            }
            (Presence::Changed, _) => writeln!(out, "profile {name}")?,
        }
        self.plugins.iter().try_for_each(|point| point.print(out))?;
        if !self.args.is_empty() {
            writeln!(out, "  arguments")?;
        }
        print_values(&self.args, "    ", out)?;
        print_values(&self.settings, "  ", out)
    }
}

impl PointDifference {
    /// `None` for an extension point with the same plugins, order and weights.
    fn between(point: &str, old: &ProfileView, new: &ProfileView) -> Option<Self> {
        let (old, new) = (old.at(point), new.at(point));
        if old == new {
            return None;
        }
        let find = |plugins: &[Plugin], name: &str| plugins.iter().find(|plugin| plugin.name == name).cloned();
        let only = |plugins: &[Plugin], others: &[Plugin]| -> Vec<Plugin> {
            plugins.iter().filter(|plugin| find(others, &plugin.name).is_none()).cloned().collect()
        };
        let weights = old.iter().filter_map(|plugin| {
            let other = find(new, &plugin.name).filter(|other| other.weight != plugin.weight)?;
            Some(WeightDifference { name: other.name, old: plugin.weight, new: other.weight })
        });
        Some(Self {
            point: point.to_owned(),
            added: only(new, old),
            removed: only(old, new),
            weights: weights.collect(),
            moved: moves(old, new),
        })
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "  {}", self.point)?;
        let weight = |plugin: &Plugin| plugin.weight.map(|weight| format!(", weight {weight}")).unwrap_or_default();
        for (sign, plugins) in [('-', &self.removed), ('+', &self.added)] {
            plugins.iter().try_for_each(|plugin| writeln!(out, "    {sign} {}{}", plugin.name, weight(plugin)))?;
        }
        for WeightDifference { name, old, new } in &self.weights {
            writeln!(out, "    {name}: weight {} -> {}", old.unwrap_or(0), new.unwrap_or(0))?;
        }
        self.moved.iter().try_for_each(|Move { name, old, new }| writeln!(out, "    {name}: place {old} -> {new}"))
    }
}

/// The paths at which two sets of values differ.
fn values(prefix: &str, old: &Values, new: &Values) -> Vec<Difference> {
    let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differing = paths.into_iter().filter(|path| old.get(*path) != new.get(*path));
    let difference = |path: &String| Difference {
        path: format!("{prefix}{path}"),
        old: old.get(path).cloned(),
        new: new.get(path).cloned(),
    };
    differing.map(difference).collect()
}

fn print_values(differences: &[Difference], indentation: &str, out: &mut dyn Write) -> io::Result<()> {
    differences.iter().try_for_each(|Difference { path, old, new }| {
        writeln!(out, "{indentation}{path}: {} -> {}", shown(old.as_ref()), shown(new.as_ref()))
    })
}
