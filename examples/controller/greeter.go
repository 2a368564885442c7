package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A greeter writes a greeting into each ConfigMap that has a name and no greeting for it.
type greeter struct {
	client.Client
	id string
}

// Reconcile greets. Like all of Kubernetes it is fenced by resourceVersion: an Update of an old copy fails.
func (g *greeter) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var c corev1.ConfigMap
	if err := g.Get(ctx, r.NamespacedName, &c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	name, ok := c.Data["name"]
	greeting := fmt.Sprintf("Hello, %s!", name)
	if !ok || c.Data["greeting"] == greeting {
		return ctrl.Result{}, nil
	}
	c.Data["greeting"], c.Data["by"] = greeting, g.id
	return ctrl.Result{}, g.Update(ctx, &c)
}
