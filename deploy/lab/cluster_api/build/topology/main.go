// Prints what Cluster API's topology controller would make of a Cluster at its first look, computed by its own code: the desired state with the
// class's patches in it. Reads one JSON object, {"types": {name of a CustomResourceDefinition: its labels}, "class": [templates and the ClusterClass],
// "clusters": [Cluster, ...]}, and writes a list of objects for each cluster, or {"error": "..."}. Variables are taken as they are given: defaults are the webhook's work.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
)

type asked struct {
	Types    map[string]map[string]string `json:"types"`
	Class    []unstructured.Unstructured  `json:"class"`
	Clusters []clusterv1.Cluster          `json:"clusters"`
}

func main() {
	var given asked
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	told := make([]any, 0, len(given.Clusters))
	for index := range given.Clusters {
		objects, err := desired(context.Background(), given, &given.Clusters[index])
		if err != nil {
			told = append(told, map[string]string{"error": err.Error()})
			continue
		}
		told = append(told, objects)
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func desired(ctx context.Context, given asked, cluster *clusterv1.Cluster) ([]any, error) {
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	// nothing of the cluster is there yet: all that is read are the types' labels, which say what contract they keep
	known := fake.NewClientBuilder().WithScheme(scheme)
	for name, labels := range given.Types {
		known.WithObjects(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	server := known.Build()
	cache := clustercache.NewFakeClusterCache(server, client.ObjectKeyFromObject(cluster))
	generator, err := desiredstate.NewGenerator(server, cache, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	looked := scope.New(cluster)
	if looked.Blueprint, err = blueprint(given.Class, cluster); err != nil {
		return nil, err
	}
	looked.Current.ControlPlane = &scope.ControlPlaneState{}
	state, err := generator.Generate(ctx, looked)
	if err != nil {
		return nil, err
	}
	made := []any{state.InfrastructureCluster, state.ControlPlane.Object, state.ControlPlane.InfrastructureMachineTemplate, state.Cluster}
	if state.ControlPlane.MachineHealthCheck != nil {
		made = append(made, state.ControlPlane.MachineHealthCheck)
	}
	for _, pool := range state.MachineDeployments {
		made = append(made, pool.BootstrapTemplate, pool.InfrastructureMachineTemplate, pool.Object)
		if pool.MachineHealthCheck != nil {
			made = append(made, pool.MachineHealthCheck)
		}
	}
	return made, nil
}

func blueprint(objects []unstructured.Unstructured, cluster *clusterv1.Cluster) (*scope.ClusterBlueprint, error) {
	class := &clusterv1.ClusterClass{}
	known := map[string]*unstructured.Unstructured{}
	for index := range objects {
		object := &objects[index]
		if object.GetKind() == "ClusterClass" {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, class); err != nil {
				return nil, err
			}
			continue
		}
		known[object.GetKind()+"/"+object.GetName()] = object
	}
	find := func(ref clusterv1.ClusterClassTemplateReference) *unstructured.Unstructured {
		return known[ref.Kind+"/"+ref.Name]
	}
	spec := class.Spec
	// as the class's own controller tells them, where no extension adds any
	for _, variable := range spec.Variables {
		inline := clusterv1.ClusterClassStatusVariableDefinition{
			From: clusterv1.VariableDefinitionFromInline, Required: variable.Required, Schema: variable.Schema,
		}
		told := clusterv1.ClusterClassStatusVariable{Name: variable.Name, Definitions: []clusterv1.ClusterClassStatusVariableDefinition{inline}}
		class.Status.Variables = append(class.Status.Variables, told)
	}
	made := &scope.ClusterBlueprint{
		Topology:                      cluster.Spec.Topology,
		ClusterClass:                  class,
		InfrastructureClusterTemplate: find(spec.Infrastructure.TemplateRef),
		ControlPlane: &scope.ControlPlaneBlueprint{
			Template:                      find(spec.ControlPlane.TemplateRef),
			InfrastructureMachineTemplate: find(spec.ControlPlane.MachineInfrastructure.TemplateRef),
			HealthCheck:                   spec.ControlPlane.HealthCheck,
		},
		MachineDeployments: map[string]*scope.MachineDeploymentBlueprint{},
	}
	for _, pool := range spec.Workers.MachineDeployments {
		made.MachineDeployments[pool.Class] = &scope.MachineDeploymentBlueprint{
			Metadata:                      pool.Metadata,
			BootstrapTemplate:             find(pool.Bootstrap.TemplateRef),
			InfrastructureMachineTemplate: find(pool.Infrastructure.TemplateRef),
			HealthCheck:                   pool.HealthCheck,
		}
	}
	return made, nil
}
