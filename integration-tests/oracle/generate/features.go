package main

// Features of cases.

import (
	"fmt"
	"slices"
	"strings"
)

// features are the names for --features.
var features = []string{
	"resources", "taints", "nodeaffinity", "ports", "images", "spread", "interpod", "volumes", "controllers",
	"priorities", "gates", "claims", "extended", "declared", "configuration", "odd", "preemption",
}

// apart are features that must be requested by name.
var apart = []string{"groups", "operators", "topology", "gated", "composite", "resizes", "amounts", "shared", "evictions"}

// groups are names for several features.
var groups = map[string][]string{
	"nodelocal": {"resources", "taints", "nodeaffinity", "ports", "images", "declared"},
	"all":       features,
}

// parseFeatures parses a list of features and groups; empty means all.
func parseFeatures(text string) ([]string, error) {
	if text == "" {
		text = "all"
	}
	var named []string
	for _, name := range strings.Split(text, ",") {
		group, isGroup := groups[name]
		switch {
		case isGroup:
			named = append(named, group...)
		case slices.Contains(features, name) || slices.Contains(apart, name):
			named = append(named, name)
		default:
			return nil, fmt.Errorf("--features: %q is not known; expected %s, nodelocal or all",
				name, strings.Join(slices.Concat(features, apart), ", "))
		}
	}
	// The random sequence must not depend on the flag's order.
	return slices.DeleteFunc(slices.Concat(features, apart), func(name string) bool { return !slices.Contains(named, name) }), nil
}
