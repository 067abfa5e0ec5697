package main

// Volumes: classes, drivers, attach limits, and claims in every state.

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	driver       = "csi.example.com"
	pickyDriver  = "picky.example.com"
	bindComplete = "pv.kubernetes.io/bind-completed"
)

func (w *world) addStorage() {
	if !w.has["volumes"] {
		return
	}
	w.addClasses()
	w.addDrivers()
	for index, node := range w.nodes {
		if w.chance(80) {
			w.addLocalVolume(index, node)
		}
	}
	for _, namespace := range w.namespaces {
		w.addClaims(namespace)
	}
	w.addOddVolumes()
}

func (w *world) addClasses() {
	later, now := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	class := func(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
		class := &storagev1.StorageClass{ObjectMeta: named(name), Provisioner: provisioner, VolumeBindingMode: &mode}
		return add(w, "storage.k8s.io/v1", "StorageClass", class)
	}
	class("now", driver, now)
	class("later", driver, later)
	class("local", "kubernetes.io/no-provisioner", later)
	class("picky", pickyDriver, later)
	zoned := class("zoned", driver, later)
	zoned.AllowedTopologies = []corev1.TopologySelectorTerm{{
		MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: corev1.LabelTopologyZone, Values: some(w.dice, 1, 2, zones...)},
		},
	}}
	class("tight", "tight.example.com", later)
}

func (w *world) addDrivers() {
	add(w, "storage.k8s.io/v1", "CSIDriver", &storagev1.CSIDriver{ObjectMeta: named(driver)})
	picky := add(w, "storage.k8s.io/v1", "CSIDriver", &storagev1.CSIDriver{ObjectMeta: named(pickyDriver)})
	picky.Spec.PreventPodSchedulingIfMissing = pointer(true)
	tight := add(w, "storage.k8s.io/v1", "CSIDriver", &storagev1.CSIDriver{ObjectMeta: named("tight.example.com")})
	tight.Spec.StorageCapacity = pointer(true)
	for index, zone := range zones {
		if !w.chance(70) {
			continue
		}
		room := add(w, "storage.k8s.io/v1", "CSIStorageCapacity",
			&storagev1.CSIStorageCapacity{ObjectMeta: within("default", fmt.Sprintf("tight-%d", index))})
		room.StorageClassName = "tight"
		room.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelTopologyZone: zone}}
		room.Capacity = pointer(quantity(pick(w.dice, "1Gi", "10Gi", "100Gi")))
		if w.chance(30) {
			room.MaximumVolumeSize = pointer(quantity("4Gi"))
		}
	}
	for _, node := range w.nodes {
		if !w.chance(80) {
			continue
		}
		able := add(w, "storage.k8s.io/v1", "CSINode", &storagev1.CSINode{ObjectMeta: named(node.Name)})
		for _, name := range some(w.dice, 1, 2, driver, pickyDriver) {
			attachable := storagev1.CSINodeDriver{Name: name, NodeID: node.Name}
			if w.chance(75) {
				attachable.Allocatable = &storagev1.VolumeNodeResources{Count: pointer(int32(w.between(0, 2)))}
			}
			able.Spec.Drivers = append(able.Spec.Drivers, attachable)
		}
		if w.chance(40) {
			w.migrate(able)
		}
		if w.chance(15) {
			w.attach(node.Name)
		}
	}
}

// attach attaches an unused volume to a node.
func (w *world) attach(node string) {
	attachment := add(w, "storage.k8s.io/v1", "VolumeAttachment", &storagev1.VolumeAttachment{ObjectMeta: named("to-" + node)})
	attachment.Spec.Attacher, attachment.Spec.NodeName = driver, node
	volume := w.addVolume("leftover-"+node, "now")
	attachment.Spec.Source.PersistentVolumeName = &volume.Name
	attachment.Status.Attached = true
}

func (w *world) addVolume(name, class string) *corev1.PersistentVolume {
	volume := add(w, "v1", "PersistentVolume", &corev1.PersistentVolume{ObjectMeta: named(name)})
	volume.Spec.StorageClassName = class
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: quantity(pick(w.dice, "1Gi", "5Gi", "20Gi"))}
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}
	volume.Status.Phase = corev1.VolumeAvailable
	return volume
}

func (w *world) addLocalVolume(index int, node *corev1.Node) {
	volume := w.addVolume(fmt.Sprintf("local-%d", index), "local")
	volume.Spec.CSI = nil
	volume.Spec.Local = &corev1.LocalVolumeSource{Path: "/mnt/disk"}
	volume.Spec.NodeAffinity = onlyWhere(corev1.LabelHostname, node.Name)
}

func onlyWhere(key string, values ...string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}},
	}}}}
}

// addClaims adds claims of most kinds to a namespace.
func (w *world) addClaims(namespace string) {
	for _, class := range []string{"now", "later", "local", "picky", "zoned", "tight", "gone"} {
		if w.chance(70) {
			w.addClaim(namespace, "unbound-"+class, class)
		}
	}
	bound := func(name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
		claim := w.addClaim(namespace, name, "now")
		volume := w.addVolume(namespace+"-"+name, "now")
		bind(claim, volume)
		return claim, volume
	}
	bound("free")
	_, volume := bound("affine")
	volume.Spec.NodeAffinity = onlyWhere(corev1.LabelTopologyZone, some(w.dice, 1, 2, zones...)...)
	_, volume = bound("labelled")
	volume.Labels = map[string]string{corev1.LabelTopologyZone: pick(w.dice, "z1", "z1__z2", "z3")}
	if w.chance(30) {
		volume.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: pick(w.dice, zones...)}
	}
	claim, volume := bound("alone")
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	volume.Spec.AccessModes = claim.Spec.AccessModes
	_, volume = bound("choosy")
	volume.Spec.CSI.Driver = pickyDriver
	w.addBroken(namespace)
}

// addBroken adds unusable claims.
func (w *world) addBroken(namespace string) {
	orphan := w.addClaim(namespace, "orphan", "now")
	orphan.Spec.VolumeName = "gone"
	orphan.Annotations = map[string]string{bindComplete: "yes"}
	lost := w.addClaim(namespace, "lost", "now")
	lost.Spec.VolumeName, lost.Status.Phase = "gone", corev1.ClaimLost
	leaving := w.addClaim(namespace, "leaving", "later")
	leaving.DeletionTimestamp = longAgo.DeepCopy()
	leaving.Finalizers = []string{"kubernetes.io/pvc-protection"}
	classless := w.addClaim(namespace, "classless", "")
	classless.Spec.StorageClassName = nil
}

func (w *world) addClaim(namespace, name, class string) *corev1.PersistentVolumeClaim {
	claim := add(w, "v1", "PersistentVolumeClaim", &corev1.PersistentVolumeClaim{ObjectMeta: within(namespace, name)})
	claim.Spec.StorageClassName = &class
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: quantity(pick(w.dice, "500Mi", "1Gi", "6Gi"))}
	w.claims[namespace] = append(w.claims[namespace], name)
	return claim
}

func bind(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) {
	claim.Spec.VolumeName, claim.Status.Phase = volume.Name, corev1.ClaimBound
	claim.Annotations = map[string]string{bindComplete: "yes"}
	volume.Status.Phase = corev1.VolumeBound
	volume.Spec.ClaimRef = &corev1.ObjectReference{
		Kind:       "PersistentVolumeClaim",
		APIVersion: "v1",
		Namespace:  claim.Namespace,
		Name:       claim.Name,
		UID:        types.UID(claim.Namespace + "/" + claim.Name),
	}
}

// mount adds volumes to a pod. A bound pod gets only volumes that could have been bound.
func (w *world) mount(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		name := pick(w.dice, "free", "affine", "labelled", "alone", "choosy")
		pod.Spec.Volumes = append(pod.Spec.Volumes, claimed("data", name))
	} else if w.chance(75) {
		for _, name := range some(w.dice, 1, 2, w.claims[pod.Namespace]...) {
			if broken[name] && !w.chance(25) {
				name = "free"
			}
			pod.Spec.Volumes = append(pod.Spec.Volumes, claimed("data-"+name, name))
			if name == "free" {
				break
			}
		}
	} else if w.chance(10) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, claimed("data", "missing"))
	}
	if w.chance(35) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, w.inline())
	}
	if w.chance(40) {
		w.mountOdd(pod)
	}
	if pod.Spec.NodeName == "" && w.chance(12) {
		w.mountEphemeral(pod)
	}
	if w.chance(30) {
		empty := corev1.Volume{Name: "scratch"}
		empty.EmptyDir = &corev1.EmptyDirVolumeSource{}
		pod.Spec.Volumes = append(pod.Spec.Volumes, empty)
	}
}

// broken are the claims that make every node infeasible.
var broken = map[string]bool{
	"orphan": true, "lost": true, "leaving": true, "classless": true, "unbound-now": true, "unbound-gone": true,
}

func claimed(name, claim string) corev1.Volume {
	volume := corev1.Volume{Name: name}
	volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
	return volume
}

// inline is an inline volume that only one pod may write to.
func (w *world) inline() corev1.Volume {
	volume, isReadOnly := corev1.Volume{Name: "disk"}, w.chance(30)
	switch w.Intn(4) {
	case 0:
		volume.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: pick(w.dice, "one", "two"), ReadOnly: isReadOnly}
	case 1:
		volume.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: pick(w.dice, "one", "two"), ReadOnly: isReadOnly}
	case 2:
		volume.ISCSI = &corev1.ISCSIVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.2024-05.com.example:" + pick(w.dice, "one", "two"), ReadOnly: isReadOnly}
	default:
		volume.RBD = &corev1.RBDVolumeSource{CephMonitors: some(w.dice, 1, 2, "10.0.0.1:6789", "10.0.0.2:6789", "10.0.0.3:6789"), RBDImage: pick(w.dice, "one", "two"), RBDPool: "rbd", ReadOnly: isReadOnly}
	}
	return volume
}

// mountEphemeral adds an ephemeral volume; its claim exists, is missing, or has another owner.
func (w *world) mountEphemeral(pod *corev1.Pod) {
	class := pick(w.dice, "later", "tight", "local")
	spec := corev1.PersistentVolumeClaimSpec{StorageClassName: &class}
	spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}
	volume := corev1.Volume{Name: "own"}
	volume.Ephemeral = &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: spec}}
	pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
	if w.chance(25) {
		return
	}
	claim := add(w, "v1", "PersistentVolumeClaim", &corev1.PersistentVolumeClaim{ObjectMeta: within(pod.Namespace, pod.Name+"-own")})
	claim.Spec = *spec.DeepCopy()
	if w.chance(20) {
		claim.Spec.VolumeName, claim.Annotations = "gone", map[string]string{bindComplete: "yes"}
	}
	if !w.chance(20) {
		claim.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: types.UID(pod.Namespace + "/" + pod.Name), Controller: pointer(true),
		}}
	}
}
