// Program translate translates volumes of migrated in-tree plugins with k8s.io/csi-translation-lib: the CSI driver, its volume
// handle, and the translated node affinity.
//
//	translate FILE...
//
// Files contain PersistentVolumes and Pods as YAML documents. The output has one JSON object and line per PersistentVolume and
// per volume of a Pod, in the order of the files.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

// answer is the result for one volume; only a name if it does not migrate.
type answer struct {
	Name         string                    `json:"name"`
	Plugin       string                    `json:"plugin,omitempty"`
	Driver       string                    `json:"driver,omitempty"`
	Handle       *string                   `json:"handle,omitempty"`
	Error        string                    `json:"error,omitempty"`
	NodeAffinity []corev1.NodeSelectorTerm `json:"nodeAffinity,omitempty"`
}

func main() {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	for _, path := range os.Args[1:] {
		if err := translateFile(path, encoder); err != nil {
			fmt.Fprintf(os.Stderr, "translate: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func translateFile(path string, encoder *json.Encoder) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var document json.RawMessage
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if text := bytes.TrimSpace(document); len(text) == 0 || string(text) == "null" {
			continue
		}
		answers, err := translate(document)
		if err != nil {
			return err
		}
		for _, answer := range answers {
			if err := encoder.Encode(answer); err != nil {
				return err
			}
		}
	}
}

func translate(document []byte) ([]answer, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(document, &head); err != nil {
		return nil, err
	}
	switch head.Kind {
	case "PersistentVolume":
		var volume corev1.PersistentVolume
		if err := json.Unmarshal(document, &volume); err != nil {
			return nil, err
		}
		return []answer{ofVolume(&volume)}, nil
	case "Pod":
		var pod corev1.Pod
		if err := json.Unmarshal(document, &pod); err != nil {
			return nil, err
		}
		var answers []answer
		for index := range pod.Spec.Volumes {
			answers = append(answers, ofInline(&pod, &pod.Spec.Volumes[index]))
		}
		return answers, nil
	}
	return nil, fmt.Errorf("kind %q; expected PersistentVolume or Pod", head.Kind)
}

func ofVolume(volume *corev1.PersistentVolume) answer {
	translator := csitranslation.New()
	if !translator.IsPVMigratable(volume) {
		return answer{Name: volume.Name}
	}
	plugin, err := translator.GetInTreePluginNameFromSpec(volume, nil)
	if err != nil {
		return answer{Name: volume.Name, Error: err.Error()}
	}
	translated, err := translator.TranslateInTreePVToCSI(klog.Background(), volume)
	return finish(volume.Name, plugin, translated, err)
}

func ofInline(pod *corev1.Pod, volume *corev1.Volume) answer {
	name := pod.Name + "/" + volume.Name
	translator := csitranslation.New()
	if !translator.IsInlineMigratable(volume) {
		return answer{Name: name}
	}
	plugin, err := translator.GetInTreePluginNameFromSpec(nil, volume)
	if err != nil {
		return answer{Name: name, Error: err.Error()}
	}
	translated, err := translator.TranslateInTreeInlineVolumeToCSI(klog.Background(), volume, pod.Namespace)
	return finish(name, plugin, translated, err)
}

func finish(name, plugin string, translated *corev1.PersistentVolume, err error) answer {
	driver, driverErr := csitranslation.New().GetCSINameFromInTreeName(plugin)
	if err = errors.Join(err, driverErr); err != nil {
		return answer{Name: name, Plugin: plugin, Driver: driver, Error: err.Error()}
	}
	found := answer{Name: name, Plugin: plugin, Driver: driver, Handle: &translated.Spec.CSI.VolumeHandle}
	if affinity := translated.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		found.NodeAffinity = affinity.Required.NodeSelectorTerms
	}
	return found
}
