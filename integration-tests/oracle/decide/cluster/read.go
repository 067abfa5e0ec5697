package cluster

// Files, documents and lists, and the kinds that scheduling reads.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// read are the kinds that scheduling reads, in the version that the scheduler watches.
var read = map[string]string{
	"Node":                  "v1",
	"Pod":                   "v1",
	"Namespace":             "v1",
	"Service":               "v1",
	"ReplicationController": "v1",
	"PersistentVolume":      "v1",
	"PersistentVolumeClaim": "v1",
	"ReplicaSet":            "apps/v1",
	"StatefulSet":           "apps/v1",
	"StorageClass":          "storage.k8s.io/v1",
	"CSINode":               "storage.k8s.io/v1",
	"CSIDriver":             "storage.k8s.io/v1",
	"CSIStorageCapacity":    "storage.k8s.io/v1",
	"VolumeAttachment":      "storage.k8s.io/v1",
	"PodDisruptionBudget":   "policy/v1",
	"PriorityClass":         "scheduling.k8s.io/v1",
	"PodGroup":              "scheduling.k8s.io/v1beta1",
	"CompositePodGroup":     "scheduling.k8s.io/v1alpha3",
	"ResourceClaim":         "resource.k8s.io/v1",
	"ResourceSlice":         "resource.k8s.io/v1",
	"DeviceClass":           "resource.k8s.io/v1",
}

var strict = serializer.NewCodecFactory(clientscheme.Scheme, serializer.EnableStrict)

// header selects how the rest of an object is read.
type header struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

func readFile(path string) ([]runtime.Object, []string, error) {
	file, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	decoder := utilyaml.NewYAMLOrJSONDecoder(file, 4096)
	reader := &reader{path: path}
	for {
		var document json.RawMessage
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return reader.objects, reader.warnings, nil
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := reader.take(document, header{}); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
}

func open(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	return os.Open(path)
}

type reader struct {
	path     string
	objects  []runtime.Object
	warnings []string
}

// take reads an object or a list; a list's header applies to items without one.
func (r *reader) take(document json.RawMessage, of header) error {
	if text := strings.TrimSpace(string(document)); text == "" || text == "null" {
		return nil
	}
	var head header
	if err := json.Unmarshal(document, &head); err != nil {
		return err
	}
	if head.Kind == "" {
		head.Kind, head.APIVersion = of.Kind, of.APIVersion
	}
	if head.Kind == "" {
		return errors.New("an object has no kind; expected one, such as `kind: Pod`")
	}
	if single, isList := strings.CutSuffix(head.Kind, "List"); isList {
		for _, item := range head.Items {
			if err := r.take(item, header{Kind: single, APIVersion: head.APIVersion}); err != nil {
				return err
			}
		}
		return nil
	}
	return r.decode(document, head)
}

func (r *reader) decode(document json.RawMessage, head header) error {
	version, isRead := read[head.Kind]
	if !isRead {
		warning := fmt.Sprintf("%s: scheduling reads no %s %s; it is left out", r.path, head.APIVersion, head.Kind)
		if !slices.Contains(r.warnings, warning) {
			r.warnings = append(r.warnings, warning)
		}
		return nil
	}
	if head.APIVersion != "" && head.APIVersion != version {
		return fmt.Errorf("a %s of %s; expected apiVersion: %s", head.Kind, head.APIVersion, version)
	}
	kind := typeOf(version, head.Kind)
	object, _, err := strict.UniversalDeserializer().Decode(document, &kind, nil)
	if runtime.IsStrictDecodingError(err) && object != nil {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: %s: %v", r.path, head.Kind, err))
		err = nil
	}
	if err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	r.objects = append(r.objects, object)
	return nil
}
