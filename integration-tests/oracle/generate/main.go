// Program generate writes small clusters with all fields that scheduling reads, as input of decide. The same seed generates
// the same bytes. The API server would accept every object; its defaults are set.
//
//	generate --seed S --count N --out FOLDER [--features a,b,c] [--stats]
//
// Case S is case-S.yaml, a List; some cases have a configuration, case-S.config.yaml. With --stats, each case is evaluated and
// statistics of the results are printed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"flotilla/integration-tests/oracle/decide/cluster"
)

const usage = `Writes small clusters with everything in them that scheduling reads.

Usage: generate --seed S --count N --out FOLDER [--features a,b,c] [--stats]

  --seed S       the seed of the first case; the others follow (1)
  --count N      how many cases (1)
  --out FOLDER   where case-SEED.yaml and, for some, case-SEED.config.yaml are written; without it, only --stats is of use
  --features L   only these: resources, taints, nodeaffinity, ports, images, spread, interpod, volumes, controllers,
                 priorities, gates, claims, declared, configuration, odd, preemption; or the groups nodelocal and all
                 (all); and groups, which all does not have: some pending pods are one PodGroup, the others are gated
  --stats        judge all cases, compare each answer with what kube-scheduler's own cycle says, and print how often
                 which plugin rejects for which reason

Exit codes: 0 done, 1 a case cannot be made, written or judged, 2 wrong usage.
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code.
func run(arguments []string, out, problems io.Writer) int {
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	flags.SetOutput(problems)
	flags.Usage = func() {}
	seed := flags.Int64("seed", 1, "")
	count := flags.Int64("count", 1, "")
	folder := flags.String("out", "", "")
	list := flags.String("features", "", "")
	isCounting := flags.Bool("stats", false, "")
	if err := flags.Parse(arguments); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage)
		return 0
	} else if err != nil {
		return 2
	}
	asked, err := parseFeatures(*list)
	if err == nil && (flags.NArg() > 0 || *folder == "" && !*isCounting) {
		err = errors.New("nothing to do; expected --out FOLDER or --stats, and no other arguments")
	}
	if err == nil && slices.Contains(asked, "operators") {
		err = cluster.SetGates("TaintTolerationComparisonOperators=true")
	}
	if err == nil && slices.Contains(asked, "gated") {
		err = cluster.SetGates("DRADerivedAttributes=true,DRADeviceCompatibilityGroups=true,DRAFractionalCapacityRange=true," +
			"DRAListTypeAttributes=true,DRAOptionalNodeOperations=true")
	}
	if err == nil && slices.Contains(asked, "amounts") {
		err = cluster.SetGates("DRANodeAllocatableResources=true")
	}
	if err == nil && slices.Contains(asked, "resizes") {
		err = cluster.SetGates("InPlacePodVerticalScalingSchedulerPreemption=true")
	}
	if err != nil {
		fmt.Fprintf(problems, "generate: %v\n%s", err, usage)
		return 2
	}
	klog.SetLogger(klog.New(nil))
	if err := makeAll(*seed, *count, *folder, asked, *isCounting, out); err != nil {
		fmt.Fprintf(problems, "generate: %v\n", err)
		return 1
	}
	return 0
}

func makeAll(seed, count int64, folder string, asked []string, isCounting bool, out io.Writer) error {
	counted := newStatistics()
	for offset := range count {
		seed := seed + offset
		made, err := generate(seed, asked)
		if err != nil {
			return err
		}
		target := folder
		if target == "" {
			if target, err = os.MkdirTemp("", "case"); err != nil {
				return err
			}
			defer os.RemoveAll(target)
		}
		files, err := made.write(target, seed)
		if err != nil {
			return err
		}
		if isCounting {
			if err := counted.judge(files); err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
		}
	}
	if isCounting {
		counted.print(out)
	}
	return nil
}

// files are the paths of a case.
type files struct{ cluster, configuration string }

func (w *world) write(folder string, seed int64) (files, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return files{}, err
	}
	var written files
	written.cluster = filepath.Join(folder, fmt.Sprintf("case-%d.yaml", seed))
	list := map[string]any{"apiVersion": "v1", "kind": "List", "items": w.objects}
	if len(w.objects) == 0 {
		list["items"] = []any{}
	}
	if err := writeYAML(written.cluster, list); err != nil {
		return files{}, err
	}
	if w.configuration == nil {
		return written, nil
	}
	written.configuration = filepath.Join(folder, fmt.Sprintf("case-%d.config.yaml", seed))
	return written, writeYAML(written.configuration, *w.configuration)
}

func writeYAML(path string, value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
