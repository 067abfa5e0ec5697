package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// madeIn generates cases into a new folder.
func madeIn(t *testing.T, arguments ...string) string {
	t.Helper()
	folder := t.TempDir()
	var out, problems bytes.Buffer
	if code := run(append(arguments, "--out", folder), &out, &problems); code != 0 {
		t.Fatalf("exit code %d: %s", code, &problems)
	}
	return folder
}

func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		read[entry.Name()] = string(text)
	}
	return read
}

func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	all := contents(t, madeIn(t, "--seed", "40", "--count", "6"))
	for seed := 40; seed < 46; seed++ {
		for name, text := range contents(t, madeIn(t, "--seed", fmt.Sprint(seed))) {
			if all[name] != text {
				t.Errorf("%s differs when it is made alone", name)
			}
		}
	}
}

func TestAFeatureStaysAlone(t *testing.T) {
	for name, text := range contents(t, madeIn(t, "--count", "10", "--features", "spread")) {
		if strings.HasSuffix(name, ".config.yaml") {
			t.Errorf("%s was made; expected no configuration", name)
		}
		for _, field := range []string{"podAffinity", "taints:", "hostPort:", "persistentVolumeClaim:", "schedulingGates:"} {
			if strings.Contains(text, field) {
				t.Errorf("%s holds %s", name, field)
			}
		}
	}
}

// Every case is evaluated, and kube-scheduler's cycle must agree with each answer.
func TestAnswersToCasesAreConfirmed(t *testing.T) {
	var out, problems bytes.Buffer
	if code := run([]string{"--seed", "7000", "--count", "40", "--stats"}, &out, &problems); code != 0 {
		t.Fatalf("exit code %d: %s", code, &problems)
	}
	for _, plugin := range []string{"NodeResourcesFit", "TaintToleration", "InterPodAffinity", "PodTopologySpread", "VolumeBinding"} {
		if !strings.Contains(out.String(), plugin+", Unschedulable") {
			t.Errorf("%s rejects no node in:\n%s", plugin, &out)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, arguments := range [][]string{{}, {"--features", "spred", "--stats"}, {"--seed", "one"}, {"--stats", "more"}} {
		if code := run(arguments, &bytes.Buffer{}, &bytes.Buffer{}); code != 2 {
			t.Errorf("%v: exit code %d, expected 2", arguments, code)
		}
	}
}
