//! The rule of the throughput benchmark: a node with a team accepts only its pods, and nodes with more CPU score higher.

use flotilla_plugin::{Description, Nodes, Normalize, Plugin, Pod, Reason};

struct Team;

impl Plugin for Team {
    fn describe() -> Description {
        Description {
            pod_fields: vec!["metadata.labels['team']".into()],
            node_fields: vec!["metadata.labels['example.com/team']".into(), "status.allocatable['cpu']".into()],
            reasons: vec![Reason::unresolvable("node(s) belonged to another team")],
            normalize: Normalize::Default,
            ..Description::default()
        }
    }

    fn filter(pod: &Pod, _: &str, nodes: &Nodes<'_>, out: &mut [u8]) -> Result<(), String> {
        let team = pod.label("team");
        nodes.texts(0).each(|owner| u8::from(owner.is_some() && owner != team), out);
        Ok(())
    }

    fn score(_: &Pod, _: &str, nodes: &Nodes<'_>, out: &mut [i64]) -> Result<(), String> {
        nodes.numbers(1).iter().zip(out).for_each(|(milli_cpu, score)| *score = milli_cpu / 1000);
        Ok(())
    }
}

flotilla_plugin::export!(Team);
