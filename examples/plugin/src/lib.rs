//! Two plugins that kube-scheduler does not have: a score with arguments, and a filter with queueing hints.

mod node_number;
mod team_nodes;

pub use node_number::NodeNumber;
pub use team_nodes::TeamNodes;
