//! The flags of `flotilla explain pod`, named as in kubectl.

#![cfg_attr(
    not(feature = "cluster"),
    allow(dead_code, reason = "without a client they are parsed only for the error message")
)]

use clap::Arg;

use crate::reach::ReachArgs;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Live cluster", mut_args(of_live_clusters_only))]
pub(crate) struct LiveArgs {
    /// The namespace of the pod; without it, that of the context
    #[arg(short, long, value_name = "NAMESPACE", requires = "target")]
    pub(super) namespace: Option<String>,

    /// The URL of the coordinator, to ask it directly with the credentials of the kubeconfig; without it, the pod that holds the Lease is
    /// asked through the API server
    #[arg(long, value_name = "URL", requires = "target")]
    pub(super) coordinator: Option<String>,

    #[command(flatten)]
    pub(super) reach: ReachArgs,
}

/// These flags have no effect on files.
fn of_live_clusters_only(argument: Arg) -> Arg {
    let is_theirs = argument.get_help_heading() == Some("Live cluster");
    if is_theirs { argument.requires("target") } else { argument }
}

/// Parses the arguments after `explain`.
///
/// # Errors
/// A message with the correct form.
pub(super) fn pod_name(words: &[String]) -> Result<&str, String> {
    let (kind, name) = match words {
        [kind, name] => (kind.as_str(), name.as_str()),
        [one] => one.split_once('/').unwrap_or((one, "")),
        _ => ("", ""),
    };
    let is_pod = matches!(kind.to_ascii_lowercase().as_str(), "pod" | "pods" | "po");
    match (is_pod, name) {
        (true, "") => Err(format!("{:?} names no pod; write pod NAME or pod/NAME", words.join(" "))),
        (true, name) if name.contains('/') => {
            Err(format!("{name:?} is no name; write pod NAME, and the namespace with --namespace"))
        }
        (true, name) => Ok(name),
        (false, _) => Err(format!(
            "{:?} is nothing that can be explained; write pod NAME for a pod of a live cluster, or -f FILE for pods of \
             files",
            words.join(" ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(words: &[&str]) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        pod_name(&words).map(str::to_owned)
    }

    #[test]
    fn a_pod_is_named_as_for_kubectl() {
        for words in [&["pod", "web"][..], &["pods", "web"], &["po", "web"], &["pod/web"], &["Pod/web"]] {
            assert_eq!(named(words).as_deref(), Ok("web"), "{words:?}");
        }
    }

    #[test]
    fn what_is_no_pod_is_told_with_what_to_write() {
        let cases = [
            (&["pod"][..], "names no pod"),
            (&["pod/"], "names no pod"),
            (&["pod", "shop/web"], "the namespace with --namespace"),
            (&["web"], "-f FILE for pods of files"),
            (&["node", "a"], "nothing that can be explained"),
        ];
        for (words, expected) in cases {
            let error = named(words).expect_err("no pod");
            assert!(error.contains(expected), "{error}");
        }
    }
}
