//! The flags of `flotilla explain pod`, named as kubectl names them.
//!
//! Knows: flags, their texts and their grammar. Must not know: what a flag does.

use std::path::PathBuf;

/// Where a live cluster and its coordinator are.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Live cluster")]
pub(crate) struct LiveArgs {
    /// The namespace of the pod; without it, that of the context
    #[arg(short, long, value_name = "NAMESPACE", requires = "target")]
    pub(super) namespace: Option<String>,

    /// The kubeconfig; without it, those of $KUBECONFIG, ~/.kube/config, or the service account of this pod
    #[arg(long, value_name = "FILE", requires = "target")]
    pub(super) kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; without it, the current one
    #[arg(long, value_name = "NAME", requires = "target")]
    pub(super) context: Option<String>,

    /// The cluster of the kubeconfig; without it, that of the context
    #[arg(long, value_name = "NAME", requires = "target")]
    pub(super) cluster: Option<String>,

    /// The user of the kubeconfig; without it, that of the context
    #[arg(long, value_name = "NAME", requires = "target")]
    pub(super) user: Option<String>,

    /// The URL of the coordinator, which is then asked directly with the credentials of the kubeconfig; without it, the
    /// pod that holds the Lease is asked through the API server
    #[arg(long, value_name = "URL", requires = "target")]
    pub(super) coordinator: Option<String>,

    /// The authority, in PEM, that signed the certificate of --coordinator; without it, that of the API server
    #[arg(
        long,
        value_name = "FILE",
        requires = "coordinator",
        conflicts_with = "coordinator_insecure_skip_tls_verify"
    )]
    pub(super) coordinator_ca: Option<PathBuf>,

    /// Send the credentials to --coordinator without knowing who is there
    #[arg(long, requires = "coordinator")]
    pub(super) coordinator_insecure_skip_tls_verify: bool,

    /// The Lease whose holder decides; without it, the first that somebody holds of flotilla/flotilla,
    /// kube-system/flotilla and kube-system/kube-scheduler
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_pair)]
    pub(super) lease: Option<(String, String)>,

    /// The namespace that the coordinators run in
    #[arg(long, value_name = "NAMESPACE", default_value = "flotilla")]
    pub(super) coordinator_namespace: String,

    /// The --secure-port of the coordinators
    #[arg(long, value_name = "PORT", default_value_t = 10259, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) coordinator_port: u16,

    /// The service account that the coordinator is asked as, with a token that is good for nothing else
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "flotilla/flotilla-reader", value_parser = parse_pair)]
    pub(super) service_account: (String, String),
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("write NAMESPACE/NAME".to_owned()),
    }
}

/// The name of the pod that the words after `explain` mean.
///
/// # Errors
/// What to write instead.
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

    #[test]
    fn a_pair_has_two_halves() {
        assert_eq!(parse_pair("a/b"), Ok(("a".to_owned(), "b".to_owned())));
        for text in ["a", "a/", "/b", "a/b/c"] {
            assert_eq!(parse_pair(text), Err("write NAMESPACE/NAME".to_owned()), "{text}");
        }
    }
}
