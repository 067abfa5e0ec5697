//! Conversions of profiles. Arguments are the JSON of `Args`.

use flotilla_framework::profile::{Args, Plugins, Profile, WeightedPlugin};

use super::{DecodeError, Problem, Wire, decode_list, encode_list, required};
use crate::pb;

impl Wire for Profile {
    type Message = pb::Profile;

    fn encode(&self) -> pb::Profile {
        let Self { scheduler_name, percentage_of_nodes_to_score, plugins, args } = self;
        pb::Profile {
            scheduler_name: scheduler_name.as_ref().to_owned(),
            plugins: Some(plugins.encode()),
            args_json: encode_args(args),
            percentage_of_nodes_to_score: *percentage_of_nodes_to_score,
        }
    }

    fn decode(message: pb::Profile) -> Result<Self, DecodeError> {
        let pb::Profile { scheduler_name, plugins, args_json, percentage_of_nodes_to_score } = message;
        Ok(Self {
            scheduler_name: scheduler_name.into(),
            percentage_of_nodes_to_score,
            plugins: required("plugins", plugins)?,
            args: decode_args(&args_json)?,
        })
    }
}

/// Arguments are structs, lists, strings and integers, which JSON always represents. If that changed, the reader would reject the empty
/// bytes and report the field.
fn encode_args(args: &Args) -> Vec<u8> {
    serde_json::to_vec(args).unwrap_or_default()
}

fn decode_args(json: &[u8]) -> Result<Args, DecodeError> {
    serde_json::from_slice(json).map_err(|error| DecodeError::new("args_json", Problem::Malformed(error.to_string())))
}

impl Wire for Plugins {
    type Message = pb::Plugins;

    fn encode(&self) -> pb::Plugins {
        let Self {
            pre_enqueue,
            queue_sort,
            pre_filter,
            filter,
            post_filter,
            pre_score,
            score,
            reserve,
            permit,
            pre_bind,
            bind,
            post_bind,
            placement_generate,
            placement_score,
            pod_group_post_filter,
        } = self;
        pb::Plugins {
            pre_enqueue: pre_enqueue.clone(),
            queue_sort: queue_sort.clone(),
            pre_filter: pre_filter.clone(),
            filter: filter.clone(),
            post_filter: post_filter.clone(),
            pre_score: pre_score.clone(),
            score: encode_list(score),
            reserve: reserve.clone(),
            permit: permit.clone(),
            pre_bind: pre_bind.clone(),
            bind: bind.clone(),
            post_bind: post_bind.clone(),
            placement_generate: placement_generate.clone(),
            placement_score: encode_list(placement_score),
            pod_group_post_filter: pod_group_post_filter.clone(),
        }
    }

    fn decode(message: pb::Plugins) -> Result<Self, DecodeError> {
        Ok(Self {
            pre_enqueue: message.pre_enqueue,
            queue_sort: message.queue_sort,
            pre_filter: message.pre_filter,
            filter: message.filter,
            post_filter: message.post_filter,
            pre_score: message.pre_score,
            score: decode_list("score", message.score)?,
            reserve: message.reserve,
            permit: message.permit,
            pre_bind: message.pre_bind,
            bind: message.bind,
            post_bind: message.post_bind,
            placement_generate: message.placement_generate,
            placement_score: decode_list("placement_score", message.placement_score)?,
            pod_group_post_filter: message.pod_group_post_filter,
        })
    }
}

impl Wire for WeightedPlugin {
    type Message = pb::WeightedPlugin;

    fn encode(&self) -> pb::WeightedPlugin {
        pb::WeightedPlugin { name: self.name.clone(), weight: self.weight }
    }

    fn decode(message: pb::WeightedPlugin) -> Result<Self, DecodeError> {
        Ok(Self { name: message.name, weight: message.weight })
    }
}
