package main

// Unusual volumes: for some claims only, of migrated plugins, and of bound pods.

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	migratedPlugins   = "storage.alpha.kubernetes.io/migrated-plugins"
	selectedNode      = "volume.kubernetes.io/selected-node"
	boundByController = "pv.kubernetes.io/bound-by-controller"
	gcePlugin         = "kubernetes.io/gce-pd"
	gceDriver         = "pd.csi.storage.gke.io"
	ebsPlugin         = "kubernetes.io/aws-ebs"
	ebsDriver         = "ebs.csi.aws.com"
)

// addOddVolumes adds volumes of the class `mixed` with different sizes, because upstream chooses any of equal ones.
func (w *world) addOddVolumes() {
	later := storagev1.VolumeBindingWaitForFirstConsumer
	mixed := &storagev1.StorageClass{ObjectMeta: named("mixed"), Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &later}
	if w.chance(30) {
		mixed.Provisioner = driver
	}
	add(w, "storage.k8s.io/v1", "StorageClass", mixed)
	inTree := &storagev1.StorageClass{ObjectMeta: named("in-tree"), Provisioner: gcePlugin, VolumeBindingMode: &later}
	add(w, "storage.k8s.io/v1", "StorageClass", inTree)
	for index := range w.between(2, 8) {
		volume := w.addVolume(fmt.Sprintf("mixed-%d", index), "mixed")
		size := fmt.Sprintf("%dMi", 1024*w.between(1, 6)+index)
		volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: quantity(size)}
		w.vary(volume)
	}
	for _, namespace := range w.namespaces {
		for index := range w.between(1, 4) {
			w.addOddClaim(namespace, fmt.Sprintf("mixed-%d", index))
		}
		w.addClaim(namespace, "unbound-in-tree", "in-tree")
		w.addInTree(namespace)
	}
	if w.chance(25) {
		w.leaveHalfDone()
	}
}

// leaveHalfDone leaves claims as a scheduler that ends between its writes and its bindings: a node is selected but no volume provisioned,
// or a volume is assigned but the claim not or only partly bound.
func (w *world) leaveHalfDone() {
	for _, object := range w.objects {
		claim, ok := object.(*corev1.PersistentVolumeClaim)
		if !ok || claim.Spec.VolumeName != "" || claim.Spec.StorageClassName == nil || !w.chance(50) {
			continue
		}
		switch *claim.Spec.StorageClassName {
		case "later", "zoned", "picky", "tight":
			if len(w.nodes) > 0 {
				metav1.SetMetaDataAnnotation(&claim.ObjectMeta, selectedNode, pick(w.dice, w.nodes...).Name)
			}
		case "local", "mixed":
			w.setAsideFor(claim)
		}
	}
}

// setAsideFor lets an available volume name a claim, and sometimes the claim the volume. Of two volumes for one claim upstream chooses any.
func (w *world) setAsideFor(claim *corev1.PersistentVolumeClaim) {
	if w.isNamed(claim) {
		return
	}
	for _, object := range w.objects {
		volume, ok := object.(*corev1.PersistentVolume)
		if !ok || volume.Spec.StorageClassName != *claim.Spec.StorageClassName || volume.Spec.ClaimRef != nil || !w.chance(50) {
			continue
		}
		metav1.SetMetaDataAnnotation(&volume.ObjectMeta, boundByController, "yes")
		volume.Spec.ClaimRef = &corev1.ObjectReference{
			Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name,
			UID: types.UID(claim.Namespace + "/" + claim.Name),
		}
		if w.chance(15) {
			claim.Spec.VolumeName = volume.Name
		}
		return
	}
}

func (w *world) isNamed(claim *corev1.PersistentVolumeClaim) bool {
	for _, object := range w.objects {
		volume, ok := object.(*corev1.PersistentVolume)
		if ok && volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.Namespace == claim.Namespace && volume.Spec.ClaimRef.Name == claim.Name {
			return true
		}
	}
	return false
}

func (w *world) vary(volume *corev1.PersistentVolume) {
	if w.chance(60) {
		volume.Spec.NodeAffinity = onlyWhere(corev1.LabelTopologyZone, some(w.dice, 1, 2, zones...)...)
	} else if w.chance(10) {
		term := &volume.Spec.NodeAffinity
		*term = onlyWhere(corev1.LabelTopologyZone, "z1")
		(*term).Required.NodeSelectorTerms[0].MatchExpressions = nil
		(*term).Required.NodeSelectorTerms[0].MatchFields = []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"nobody"}},
		}
	}
	if w.chance(50) {
		volume.Labels = map[string]string{"disk": pick(w.dice, "fast", "slow")}
	}
	if w.chance(20) {
		volume.Spec.VolumeMode = pointer(corev1.PersistentVolumeBlock)
	}
	if w.chance(30) {
		volume.Spec.AccessModes = append(volume.Spec.AccessModes, corev1.ReadWriteMany)
	}
	if w.chance(15) {
		volume.Spec.VolumeAttributesClassName = pointer("gold")
	}
	if w.chance(10) {
		volume.DeletionTimestamp = longAgo.DeepCopy()
		volume.Finalizers = []string{"kubernetes.io/pv-protection"}
	}
	if w.chance(10) {
		volume.Status.Phase = pick(w.dice, corev1.VolumePending, corev1.VolumeReleased, corev1.VolumeFailed)
	}
}

// addOddClaim adds a claim that only some volumes satisfy; one in four has an assigned volume.
func (w *world) addOddClaim(namespace, name string) {
	claim := w.addClaim(namespace, name, "mixed")
	if w.chance(30) {
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": pick(w.dice, "fast", "slow")}}
	}
	if w.chance(15) {
		claim.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "disk", Operator: pick(w.dice, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)},
		}}
	}
	if w.chance(15) {
		claim.Spec.VolumeMode = pointer(corev1.PersistentVolumeBlock)
	}
	if w.chance(20) {
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.ReadWriteMany)
	}
	if w.chance(15) {
		claim.Spec.VolumeAttributesClassName = pointer("gold")
	}
	if w.chance(10) && len(w.nodes) > 0 {
		claim.Annotations = map[string]string{selectedNode: pick(w.dice, w.nodes...).Name}
	}
	if w.chance(25) {
		volume := w.addVolume(namespace+"-for-"+name, "mixed")
		volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: name}
		if w.chance(50) {
			volume.Spec.ClaimRef.UID = types.UID(namespace + "/" + pick(w.dice, name, "another"))
		}
		if w.chance(60) {
			volume.Spec.NodeAffinity = onlyWhere(corev1.LabelTopologyZone, some(w.dice, 1, 2, zones...)...)
		}
	}
}

// addInTree adds claims bound to volumes of migrated plugins.
func (w *world) addInTree(namespace string) {
	add := func(name string) *corev1.PersistentVolume {
		claim := w.addClaim(namespace, name, "now")
		volume := w.addVolume(namespace+"-"+name, "now")
		volume.Spec.CSI = nil
		bind(claim, volume)
		if w.chance(50) {
			volume.Labels = map[string]string{corev1.LabelTopologyZone: pick(w.dice, "z1", "z2", "z1__z2")}
		}
		if w.chance(50) {
			volume.Spec.NodeAffinity = onlyWhere(corev1.LabelTopologyZone, some(w.dice, 1, 2, zones...)...)
		}
		return volume
	}
	add("gce").Spec.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: pick(w.dice, "one", "two")}
	disk := add("ebs")
	disk.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{
		VolumeID: pick(w.dice, "vol-1", "aws://us-east-1a/vol-0123456789abcdef0"),
	}
	if w.chance(8) {
		disk.Spec.AWSElasticBlockStore.VolumeID = "aws://us-east-1a/nonsense"
	}
	add("share").Spec.AzureFile = &corev1.AzureFilePersistentVolumeSource{SecretName: "key", ShareName: "share"}
}

// migrate sets a node's migrated plugins and their volume limits.
func (w *world) migrate(able *storagev1.CSINode) {
	if plugins := some(w.dice, 0, 2, gcePlugin, ebsPlugin); len(plugins) > 0 {
		text := plugins[0]
		for _, plugin := range plugins[1:] {
			text += "," + plugin
		}
		able.Annotations = map[string]string{migratedPlugins: text}
	}
	for _, name := range some(w.dice, 0, 2, gceDriver, ebsDriver) {
		limit := &storagev1.VolumeNodeResources{Count: pointer(int32(w.between(0, 2)))}
		able.Spec.Drivers = append(able.Spec.Drivers, storagev1.CSINodeDriver{Name: name, NodeID: able.Name, Allocatable: limit})
	}
}

// mountOdd adds more volumes of all kinds to a pod.
func (w *world) mountOdd(pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		if w.chance(20) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, claimed("disk-of-old", pick(w.dice, "gce", "ebs", "share")))
		}
		if w.chance(8) {
			w.mountEphemeral(pod)
		}
		return
	}
	names := []string{"mixed-0", "mixed-1", "mixed-2", "mixed-3", "gce", "ebs", "share", "unbound-in-tree"}
	for index, name := range some(w.dice, 1, 3, names...) {
		known := false
		for _, claim := range w.claims[pod.Namespace] {
			known = known || claim == name
		}
		if known {
			pod.Spec.Volumes = append(pod.Spec.Volumes, claimed(fmt.Sprintf("odd-%d", index), name))
		}
	}
	if w.chance(15) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, w.inlineOld())
	}
}

// inlineOld is an inline volume of a migrated plugin, shareable by pods.
func (w *world) inlineOld() corev1.Volume {
	volume := corev1.Volume{Name: "old"}
	switch w.Intn(4) {
	case 0:
		volume.Cinder = &corev1.CinderVolumeSource{VolumeID: "one"}
	case 1:
		volume.AzureDisk = &corev1.AzureDiskVolumeSource{DiskName: "one", DataDiskURI: "/subscriptions/s/resourcegroups/g/providers/microsoft.compute/disks/one", Kind: pointer(corev1.AzureManagedDisk)}
		if w.chance(20) {
			volume.AzureDisk.Kind = pointer(corev1.AzureDedicatedBlobDisk)
			volume.AzureDisk.DataDiskURI = "https://account.blob.core.windows.net/container/one.vhd"
		}
	case 2:
		volume.PortworxVolume = &corev1.PortworxVolumeSource{VolumeID: "one"}
	default:
		volume.AzureFile = &corev1.AzureFileVolumeSource{SecretName: "key", ShareName: "share"}
	}
	return volume
}
