"""NPUs for Kubernetes: a device plugin and a DRA driver in one program (`openrknn device-plugin`).

    inventory   which devices a node offers: whole NPUs, shares, cores
    health      whether each of them works, and why not
    grants      what a container gets: nodes, variables, mounts
    messages    the kubelet's messages, built at run time from tables
    services    the kubelet's services: handlers and stubs
    plugin      device plugin v1beta1
    dra, slices, claims, registration    dynamic resource allocation
    api         the few calls to the API server that DRA needs
    cdi         files of the Container Device Interface
    labels      a file for Node Feature Discovery
    pods        which pod uses which NPU; metrics

It needs the extra `kubernetes` (grpcio, protobuf).
"""
