//! `flotilla config show`: prints a configuration with all defaults filled in.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use comfy_table::Cell;
use flotilla_configuration::{Configuration, catalogue};

use super::{
    args::{ShowArgs, ShowFormat},
    gates::Gates,
    source,
    view::{Plugin, ProfileView, Values, View, moves, shown},
};
use crate::output::{Failure, json, print, printable, table, yaml};

pub(super) fn show(args: &ShowArgs, gates: &Gates) -> Result<ExitCode, Failure> {
    let loaded = source::load(args.file.as_deref(), gates)?;
    let mut configuration = loaded.configuration;
    if let Some(name) = &args.profile {
        let names: Vec<String> =
            configuration.profiles.iter().map(|profile| profile.scheduler_name.to_string()).collect();
        configuration.profiles.retain(|profile| *profile.scheduler_name == **name);
        if configuration.profiles.is_empty() {
            let line = format!("{}: has no profile {name:?}; it has {}", loaded.name, names.join(", "));
            return Err(Failure::input(vec![line]).with_code(1));
        }
    }
    print(|out| match args.output {
        ShowFormat::Table => print_tables(&configuration, args.profile.is_none(), out),
        ShowFormat::Json => json(&configuration.to_v1(), out),
        ShowFormat::Yaml => yaml(&configuration.to_v1(), out),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print_tables(configuration: &Configuration, with_settings: bool, out: &mut dyn Write) -> io::Result<()> {
    let view = View::of(configuration);
    let stock = View::stock_profile();
    for (number, profile) in view.profiles.iter().enumerate() {
        let gap = if number > 0 { "\n" } else { "" };
        writeln!(out, "{gap}Profile {}\n", printable(&profile.name))?;
        let rows = profile_rows(profile, &stock).into_iter().map(|row| row.map(Cell::new));
        writeln!(out, "{}", table(["POINT", "PLUGIN", "WEIGHT", "NOTE"], rows).trim_fmt())?;
        let args: Vec<[String; 3]> =
            profile.args.iter().flat_map(|(name, values)| args_rows(name, values, &stock)).collect();
        if args.is_empty() {
            writeln!(out, "\nAll arguments of plugins are the defaults.")?;
        } else {
            let rows = args.into_iter().map(|row| row.map(Cell::new));
            writeln!(out, "\n{}", table(["ARGUMENT", "VALUE", "DEFAULT"], rows).trim_fmt())?;
        }
    }
    if !with_settings {
        return Ok(());
    }
    let defaults = View::of(&Configuration::default()).settings;
    let rows = view.settings.iter().map(|(path, value)| {
        let default = defaults.get(path).filter(|default| *default == value);
        let default = if default.is_some() { String::new() } else { shown(defaults.get(path)) };
        [path.clone(), shown(Some(value)), default].map(Cell::new)
    });
    writeln!(out, "\n{}", table(["SETTING", "VALUE", "DEFAULT"], rows).trim_fmt())
}

/// The enabled, then the disabled plugins of each extension point.
fn profile_rows(profile: &ProfileView, stock: &ProfileView) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for point in catalogue::Point::ALL {
        let (own, default) = (profile.at(point.key()), stock.at(point.key()));
        let moves = moves(default, own);
        for plugin in own {
            let is_moved = moves.iter().any(|moved| moved.name == plugin.name);
            let notes = notes(plugin, default, is_moved);
            let weight = plugin.weight.map(|weight| weight.to_string()).unwrap_or_default();
            rows.push([point.key().to_owned(), plugin.name.clone(), weight, notes]);
        }
        for plugin in default.iter().filter(|plugin| !own.iter().any(|other| other.name == plugin.name)) {
            rows.push([point.key().to_owned(), plugin.name.clone(), String::new(), "switched off".to_owned()]);
        }
    }
    rows
}

fn notes(plugin: &Plugin, default: &[Plugin], is_moved: bool) -> String {
    let mut notes = Vec::new();
    match default.iter().find(|other| other.name == plugin.name) {
        None => notes.push("not in the default set".to_owned()),
        Some(other) if other.weight != plugin.weight => {
            notes.push(format!("default weight {}", other.weight.unwrap_or(0)));
        }
        Some(_) => {}
    }
    if is_moved {
        notes.push("moved".to_owned());
    }
    notes.join(", ")
}

/// Arguments of a plugin that differ from the defaults, including missing ones.
fn args_rows(plugin: &str, own: &Values, stock: &ProfileView) -> Vec<[String; 3]> {
    let none = Values::new();
    let default = stock.args.get(plugin).unwrap_or(&none);
    let only_default = default.keys().filter(|path| !own.contains_key(*path));
    let mut paths: Vec<&String> =
        own.keys().chain(only_default).filter(|path| own.get(*path) != default.get(*path)).collect();
    paths.sort();
    let row = |path: &String| [format!("{plugin}.{path}"), shown(own.get(path)), shown(default.get(path))];
    paths.into_iter().map(row).collect()
}
