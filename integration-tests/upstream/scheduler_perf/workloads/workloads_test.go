// Package workloads runs the benchmarks of all packages of scheduler_perf in one program. Their test files are copied as ordinary files.
//
// Environment: FLOTILLA_SCHEDULER_PERF is the folder of scheduler_perf, with the files of the workloads. FLOTILLA_PACKAGE is the package
// to run; without it, all packages are listed.
package workloads

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	perf "flotilla/integration-tests/upstream/scheduler_perf"
)

// benchmark is a package with its benchmark; packages, which the build generates, has all of them.
type benchmark struct {
	name string
	run  func(*testing.B)
}

func TestMain(m *testing.M) {
	if err := perf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	m.Run()
}

func BenchmarkPerfScheduling(b *testing.B) {
	wanted := os.Getenv("FLOTILLA_PACKAGE")
	for _, one := range packages {
		if wanted != "" && wanted != one.name {
			continue
		}
		if err := os.Chdir(filepath.Join(os.Getenv("FLOTILLA_SCHEDULER_PERF"), one.name)); err != nil {
			b.Fatal(err)
		}
		perf.Package = one.name
		one.run(b)
	}
}
