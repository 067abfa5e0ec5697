//! A live cluster as text, in the form of `kubectl get -o json`.

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::{Connection, list};
use crate::{
    input::{MAX_BYTES, Text},
    output::print_notes,
    reach::ClusterArgs,
};

/// Reads all objects that affect scheduling from the cluster that the flags name, and prints warnings about unreadable kinds.
///
/// # Errors
/// Nodes or pods cannot be read, or the text exceeds the size limit; with the next step.
pub(crate) fn dump(args: &ClusterArgs) -> anyhow::Result<Text> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime")?;
    runtime.block_on(async {
        let connection = Connection::open(args).await?;
        let (mut text, mut is_full) = (String::new(), false);
        let mut each = |kind: &list::Kind, mut objects: Vec<Value>| {
            is_full |= text.len() as u64 > MAX_BYTES;
            if is_full || objects.is_empty() {
                return;
            }
            objects.iter_mut().for_each(trim);
            let page =
                json!({ "apiVersion": kind.api_version, "kind": format!("{}List", kind.name), "items": objects });
            text.push_str(&page.to_string());
            text.push('\n');
        };
        let unread = list::all_with_makers(&connection.client, &connection.place, &mut each).await?;
        print_notes(&unread);
        if is_full {
            let place = &connection.place;
            bail!("{place} has more than 512 MiB of objects; write what matters into files, and name them with -f");
        }
        Ok(Text { name: connection.place, text })
    })
}

/// Removes fields that no scheduler reads, which are half of a pod.
fn trim(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.remove("managedFields");
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}
