//! Images on the nodes of the cluster. As in kube-scheduler, an image has the size that the first node reported.

use std::sync::Arc;

use flotilla_framework::{class::Class, node::NodeInfo, plugins::image_locality};
use indexmap::IndexMap;

/// The images by name.
#[derive(Debug, Default)]
pub struct Images {
    known: IndexMap<Arc<str>, Image>,
    version: u64,
}

#[derive(Debug)]
struct Image {
    size: i64,
    nodes: usize,
}

fn names(node: &NodeInfo) -> IndexMap<&Arc<str>, i64> {
    let mut names = IndexMap::new();
    for (image, size) in &node.images {
        for name in image {
            names.entry(name).or_insert(*size);
        }
    }
    names
}

impl Images {
    /// Adds a node.
    pub fn add(&mut self, node: &NodeInfo) {
        self.version += 1;
        for (name, size) in names(node) {
            self.known.entry(Arc::clone(name)).or_insert(Image { size, nodes: 0 }).nodes += 1;
        }
    }

    pub(crate) fn remove(&mut self, node: &NodeInfo) {
        self.version += 1;
        for (name, _) in names(node) {
            if let Some(image) = self.known.get_mut(name) {
                image.nodes -= 1;
                if image.nodes == 0 {
                    self.known.swap_remove(name);
                }
            }
        }
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// The score that each image of a class contributes, in a cluster of `nodes` nodes.
    #[must_use]
    pub fn contributions(&self, class: &Class, nodes: usize) -> Vec<i64> {
        let contribution = |name: &Arc<str>| {
            self.known.get(name).map_or(0, |image| image_locality::contribution(image.size, image.nodes, nodes))
        };
        class.images.iter().map(contribution).collect()
    }
}
