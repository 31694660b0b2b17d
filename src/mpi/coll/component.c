/* SPDX-License-Identifier: BSD-3-Clause */
/* Entry points for Open MPI: parameters, and the module of each communicator. */
#include "coll_mad.h"

#include <ompi/mca/coll/base/base.h>
#include <opal/runtime/opal_progress.h>
#include <opal/util/output.h>
#include <stdio.h>

#define PRIORITY 90    /* above the priorities of Open MPI's own algorithms */
#define SHORT_LEN 4096 /* bytes; measured on one host, with 2 and 4 processes */

/* ---- Parameters ------------------------------------------------------------------------------------------------ */

static int coll_component_register(void)
{
    mad_coll->priority = PRIORITY;
    mca_base_component_var_register(&mad_coll->super.collm_version, "priority",
                                    "Priority among the collective components; 0 or less: never used", MCA_BASE_VAR_TYPE_INT,
                                    NULL, 0, 0, OPAL_INFO_LVL_6, MCA_BASE_VAR_SCOPE_READONLY, &mad_coll->priority);
    mad_coll->short_len = SHORT_LEN;
    mca_base_component_var_register(
        &mad_coll->super.collm_version, "short",
        "If all processes are on one host, operations in which fewer bytes go one way are left to "
        "Open MPI's own algorithms, because single messages cost less there",
        MCA_BASE_VAR_TYPE_UNSIGNED_INT, NULL, 0, 0, OPAL_INFO_LVL_6, MCA_BASE_VAR_SCOPE_READONLY, &mad_coll->short_len);
    mca_base_component_var_register(&mad_coll->super.collm_version, "report",
                                    "Print at the end how many operations were made (to the standard error output)",
                                    MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY,
                                    &mad_coll->report);
    return OMPI_SUCCESS;
}

static int coll_component_close(void)
{
    if (mad_coll->progresses)
        opal_progress_unregister(mad_coll_progress);
    mad_coll->progresses = false;
    if (mad_coll->report)
        fprintf(stderr, "coll mad: %llu operations, and %llu passed on\n", (unsigned long long)mad_coll->n_begun,
                (unsigned long long)mad_coll->n_passed);
    return OMPI_SUCCESS;
}

static int coll_component_query(bool progress_threads, bool mpi_threads)
{
    (void)progress_threads;
    (void)mpi_threads;
    return OMPI_SUCCESS;
}

/* ---- Modules --------------------------------------------------------------------------------------------------- */

static void coll_module_construct(mad_coll_module_t *module)
{
    module->comm = NULL;
    module->group = NULL;
    module->near = false;
#define CLEAR(name) \
    module->name##_next = NULL; \
    module->name##_next_module = NULL;
    MAD_COLL_SHARED(CLEAR)
#undef CLEAR
}

static void coll_module_destruct(mad_coll_module_t *module)
{
    mad_group_free(module->group);
#define RELEASE(name) \
    if (module->name##_next_module) \
        OBJ_RELEASE(module->name##_next_module);
    MAD_COLL_SHARED(RELEASE)
#undef RELEASE
}

OBJ_CLASS_INSTANCE(mad_coll_module_t, mca_coll_base_module_t, coll_module_construct, coll_module_destruct);

/* Record the functions that Open MPI would take without this component.  Those of a higher priority replace this module's
 * functions later. */
static int coll_module_enable(mca_coll_base_module_t *super, ompi_communicator_t *comm)
{
    mad_coll_module_t *module = (mad_coll_module_t *)super;
#define KEEP(name) \
    if (comm->c_coll->coll_##name##_module) { \
        module->name##_next = comm->c_coll->coll_##name; \
        module->name##_next_module = comm->c_coll->coll_##name##_module; \
        OBJ_RETAIN(module->name##_next_module); \
    }
    MAD_COLL_SHARED(KEEP)
#undef KEEP
    return OMPI_SUCCESS;
}

/* Return why a communicator is not served; NULL if it is. */
static const char *reason_against(ompi_communicator_t *comm)
{
    if (mad_coll->priority <= 0)
        return "its priority is not above 0";
    if (OMPI_COMM_IS_INTER(comm))
        return "the communicator is one between two groups";
    if (ompi_comm_size(comm) < 2)
        return "the communicator has one process";
    if (!mad_coll_session())
        return "neither pml mad nor btl mad is in use";
    return NULL;
}

static mca_coll_base_module_t *coll_component_comm_query(ompi_communicator_t *comm, int *priority)
{
    const char *reason = reason_against(comm);
    mad_coll_module_t *module = reason ? NULL : OBJ_NEW(mad_coll_module_t);
    if (!module) {
        opal_output_verbose(10, ompi_coll_base_framework.framework_output, "coll mad: not for communicator %s: %s",
                            comm->c_name, reason ? reason : "out of memory");
        return NULL;
    }
    module->comm = comm;
    module->near = !ompi_group_have_remote_peers(comm->c_local_group);
    module->super.coll_module_enable = coll_module_enable;
    mad_coll_moves_set(&module->super);
    mad_coll_combines_set(&module->super);
    *priority = mad_coll->priority;
    return &module->super;
}

/* ---- Tables ---------------------------------------------------------------------------------------------------- */

#if OMPI_MAJOR_VERSION >= 5
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_4_0
#else
#define COLL_VERSION MCA_COLL_BASE_VERSION_2_0_0
#endif

mad_coll_component_t mca_coll_mad_component = {
    .super =
        {
            .collm_version =
                {
                    COLL_VERSION,
                    .mca_component_name = "mad",
                    MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
                    .mca_close_component = coll_component_close,
                    .mca_register_component_params = coll_component_register,
                },
            .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_CHECKPOINT},
            .collm_init_query = coll_component_query,
            .collm_comm_query = coll_component_comm_query,
        },
};
