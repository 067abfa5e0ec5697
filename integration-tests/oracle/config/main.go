// Program config checks whether kube-scheduler accepts configuration files, and prints their effective configuration.
// kube-scheduler's code reads, completes and validates the files; only the order of the steps is copied from its Setup
// function. There are no connections.
//
//	config FILE|FOLDER...                      one JSON object per file, ordered by name
//	config -feature-gates A=true,B=false ...   the same, with these feature gates for all files
//	config gates                               one JSON object per feature gate, ordered by name
//
// The comment "# feature-gates: A=true,B=false" in the first line of a file sets its gates, unless the flag does.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	// Imported by the scheduler's main package for feature gates and metrics.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	gates := flag.String("feature-gates", "", "feature gates for all files, as kube-scheduler takes them")
	flag.Parse()
	err := silence()
	if err == nil {
		err = run(*gates, flag.Args())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "config: %v\n", err)
		os.Exit(1)
	}
}

func run(gates string, arguments []string) error {
	if len(arguments) == 1 && arguments[0] == "gates" {
		listed, err := listGates()
		if err != nil {
			return err
		}
		return printLines(listed)
	}
	files, err := collect(arguments)
	if err != nil {
		return err
	}
	answers, err := answerAll(gates, files)
	if err != nil {
		return err
	}
	return printLines(answers)
}

// printLines writes each item as a line of JSON without escaping HTML.
func printLines[T any](items []T) error {
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, item := range items {
		if err := encoder.Encode(item); err != nil {
			return err
		}
	}
	return out.Flush()
}
