//! `flotilla preflight`: checks whether a cluster is ready for Flotilla.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use flotilla_configuration::{Configuration, features::FeatureGates};
use flotilla_framework::registry::Registry;

use crate::{
    cluster,
    live::Connection,
    output::{Failure, end, print, printable},
    status::runtime,
};

mod args;
mod check;
mod lease;
mod objects;
mod reviews;
mod rights;
mod server;
mod workers;

pub(crate) use args::PreflightArgs;

use args::Format;
use check::{Check, CheckResult};

pub(crate) fn command(args: &PreflightArgs, registry: Registry) -> ExitCode {
    end(run(args, registry))
}

fn run(args: &PreflightArgs, registry: Registry) -> Result<ExitCode, Failure> {
    let runtime = runtime()?;
    let connection = runtime.block_on(Connection::open(&args.server)).map_err(Failure::run)?;
    let (configured, configuration) = configuration(args, registry);
    let mut checks = vec![configured];
    checks.extend(runtime.block_on(look(args, &connection, configuration.as_ref())));
    print(|out| write(args.output, &checks, out))?;
    let failed = checks.iter().any(|check| check.verdict == CheckResult::Failed);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The configuration, parsed as in `flotilla config check`.
fn configuration(args: &PreflightArgs, registry: Registry) -> (Check, Option<Configuration>) {
    const NAME: &str = "configuration";
    let Some(path) = &args.config else {
        let check = Check::unknown(NAME, "not named").next("name the file that the coordinators get with --config");
        return (check, None);
    };
    match cluster::configuration(Some(path), &FeatureGates::default(), registry) {
        Ok(configuration) => {
            let names: Vec<&str> = configuration.profiles.iter().map(|profile| &*profile.scheduler_name).collect();
            let check = Check::passed(NAME, format!("{} is valid: profiles {}", path.display(), names.join(", ")));
            (check, Some(configuration))
        }
        Err(failure) => {
            let check = Check::failed(NAME, failure.to_string());
            (check.next(format!("flotilla config check {}", path.display())), None)
        }
    }
}

async fn look(args: &PreflightArgs, connection: &Connection, configuration: Option<&Configuration>) -> Vec<Check> {
    let client = &connection.client;
    let mut checks = match server::version(client, &connection.place).await {
        Ok(check) => vec![check],
        Err(check) => return vec![check],
    };
    let lease = args.lease(configuration);
    match rights::wanted(&args.namespace, &lease) {
        Ok(mut wanted) => {
            let (resources, unusable) = server::resources(client, &wanted).await;
            checks.extend(resources);
            // A right to a resource that is not served is no finding.
            wanted.retain(|right| !unusable.contains(right));
            checks.push(reviews::rights(client, args, wanted).await);
        }
        Err(error) => checks.push(Check::failed("rights", format!("the manifest of the rights is not valid: {error}"))),
    }
    checks.push(lease::own(client, &lease).await);
    checks.push(lease::same_name(client, &lease, configuration).await);
    checks.push(objects::namespace(client, &args.namespace).await);
    checks.push(objects::priority_class(client).await);
    checks.push(objects::secret(client, args).await);
    checks.extend(workers::reach(client, args).await);
    checks
}

fn write(format: Format, checks: &[Check], out: &mut dyn Write) -> io::Result<()> {
    if format == Format::Json {
        serde_json::to_writer_pretty(&mut *out, checks)?;
        return writeln!(out);
    }
    for check in checks {
        writeln!(out, "{} {}: {}", check.verdict.sign(), check.name, printable(&check.what))?;
        for line in check.next.iter().flat_map(|next| next.lines()) {
            writeln!(out, "    {}", printable(line))?;
        }
    }
    let failed = checks.iter().filter(|check| check.verdict == CheckResult::Failed).count();
    let unknown = checks.iter().filter(|check| check.verdict == CheckResult::Unknown).count();
    writeln!(out, "\n{} checks: {failed} failed, {unknown} could not be made", checks.len())
}
